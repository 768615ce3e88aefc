"""What a step asks, and what becomes of the answers: prompts and seeds before, rewards and advantages after.

Functions of the stage, the step and the responses alone; the training loop and `--rollout-only` share them,
and `score` whoever else wants rewards.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from zgcm.config.rl import RLStage
from zgcm.rl.advantages import reject_reason
from zgcm.rl.experience import Judged, advantages_of, shape, trajectories
from zgcm.rl.prompts import Prompt, batch_at
from zgcm.rl.rewards.router import Judges
from zgcm.rl.rewards.score import Finished
from zgcm.rl.trajectory import Groups, Request, Response, Trajectory, seed_of

if TYPE_CHECKING:
    from zgcm.rl.prepare import Run


def prompts_of(stage: RLStage, train: Sequence[Prompt], step: int) -> list[Prompt]:
    """The prompts of a step, counted from 0."""
    places = batch_at(
        len(train),
        step,
        batch_size=stage.batch_size,
        seed=stage.seed,
        shuffle=stage.shuffle,
        drop_last=stage.drop_last,
    )
    return [train[place] for place in places]


def requests_of(stage: RLStage, prompts: Sequence[Prompt], purpose: str, step: int) -> list[Request]:
    """One request a prompt; its seed is a function of (stage seed, purpose, step, place)."""
    return [
        Request(prompt.token_ids, seed_of(stage.seed, purpose, step, index))
        for index, prompt in enumerate(prompts)
    ]


def score(
    run: "Run",
    judges: Judges,
    prompts: Sequence[Prompt],
    groups: Sequence[Sequence[Response]],
    limit: int,
    *,
    evaluating: bool = False,
) -> tuple[list[list[float]], list[list[str]]]:
    """Raw reward of each response of each prompt, and why it has no verdict (`Scores.not_judged`)."""
    flat = [
        Finished(
            run.tokenizer.decode(response.token_ids, skip_special_tokens=False),
            len(response.token_ids),
            response.finish_reason,
            prompt,
        )
        for prompt, group in zip(prompts, groups, strict=True)
        for response in group
    ]
    scores = judges.score(flat, limit, evaluating=evaluating)
    values, kinds = iter(scores.raw), iter(scores.not_judged)
    raw = [[next(values) for _ in group] for group in groups]
    return raw, [[next(kinds) for _ in group] for group in groups]


def by_kind(not_judged: Sequence[Sequence[str]]) -> Counter[str]:
    """How many responses have no verdict, by kind."""
    return Counter(kind for kinds in not_judged for kind in kinds if kind)


def judge(run: "Run", judges: Judges, prompts: Sequence[Prompt], groups: Groups) -> Judged:
    """Rewards, and advantages of the groups that teach something."""
    stage = run.stage
    raw, not_judged = score(run, judges, prompts, groups, stage.rollout.sampling.max_new_tokens)
    rewards = shape(prompts, raw, groups, stage)
    left_out = [
        reject_reason(
            values,
            [len(prompt.token_ids) + len(response.token_ids) for response in group],
            group_size=stage.rollout.sampling.n_samples,
            max_tokens=stage.learner.max_tokens_per_microbatch,
            domain=prompt.domain,
        )
        for prompt, group, values in zip(prompts, groups, rewards, strict=True)
    ]
    kept = [index for index, reason in enumerate(left_out) if reason is None]
    batch: list[Trajectory] = []
    if kept:
        advantages_B = advantages_of([rewards[i] for i in kept], [groups[i] for i in kept], stage)
        batch = trajectories([prompts[i] for i in kept], [groups[i] for i in kept], advantages_B)
    return Judged(raw, rewards, by_kind(not_judged), left_out, batch)
