"""From sampled responses to training data and to the line that a step leaves in `reward.jsonl`.

Axes: P prompts (groups), N responses a prompt, B = P x N responses.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zgcm.config.rl import RLStage, steps_per_epoch
from zgcm.rl.advantages import batch_normalise, digest, group_normalise
from zgcm.rl.prompts import Prompt
from zgcm.rl.rewards.shaping import mean, shaped
from zgcm.rl.trajectory import Response, Trajectory

UPDATE_KEYS = (
    "loss", "grad_norm", "learning_rate", "clipped_fraction", "masked_fraction", "entropy",
    "logprob_gap_mean", "logprob_gap_max",
)  # fmt: skip
"""What a learner step reports; null in the line of a step that had nothing to learn from."""


@dataclass(frozen=True)
class Judged:
    """Responses of a step with what the learner needs to know of them, group by group."""

    raw: list[list[float]]
    """Without the length penalty, in [0, 1]."""
    rewards: list[list[float]]
    """With the length penalty."""
    failures: Counter[str]
    """Responses without a verdict, by kind."""
    left_out: list[str | None]
    """Why a group teaches nothing; None: it is trained on."""
    batch: list[Trajectory]
    """Responses of the groups that are trained on."""

    @property
    def rejected(self) -> Counter[str]:
        return Counter(reason for reason in self.left_out if reason is not None)


def shape(
    prompts: Sequence[Prompt],
    raw: Sequence[Sequence[float]],
    groups: Sequence[Sequence[Response]],
    stage: RLStage,
) -> list[list[float]]:
    """The reward of each response: the raw one; in mathematics with the penalty on long right answers."""

    def one(prompt: Prompt, value: float, response: Response) -> float:
        penalty = stage.reward.length_penalty if prompt.domain == "math" else None
        return shaped(value, len(response.token_ids), penalty)

    return [
        [one(prompt, value, response) for value, response in zip(values, group, strict=True)]
        for prompt, values, group in zip(prompts, raw, groups, strict=True)
    ]


def advantages_of(
    rewards: Sequence[Sequence[float]], groups: Sequence[Sequence[Response]], stage: RLStage
) -> np.ndarray:
    """Advantage of each response (B): scaled, normalised within its group, then over the batch's tokens."""
    settings = stage.learner
    rewards_PN = (np.array(rewards, dtype=np.float64) + settings.reward_bias) * settings.reward_scaling
    advantages_B = group_normalise(rewards_PN).ravel()
    if settings.advantage_norm == "none":
        return advantages_B
    tokens_B = np.array([len(response.token_ids) for group in groups for response in group])
    return batch_normalise(advantages_B, tokens_B)


def trajectories(
    prompts: Sequence[Prompt], groups: Sequence[Sequence[Response]], advantages_B: np.ndarray
) -> list[Trajectory]:
    """Prompts, responses and advantages side by side, group by group."""
    values = iter(advantages_B.tolist())
    return [
        Trajectory(prompt.token_ids, response.token_ids, response.logprobs, next(values))
        for prompt, group in zip(prompts, groups, strict=True)
        for response in group
    ]


def step_record(step: int, groups: Sequence[Sequence[Response]], judged: Judged) -> dict[str, Any]:
    """Deterministic facts of one step; the learner's are added by the caller."""
    responses = [response for group in groups for response in group]
    right = [
        len(response.token_ids)
        for group, values in zip(groups, judged.raw, strict=True)
        for response, value in zip(group, values, strict=True)
        if value
    ]
    lengths = [len(response.token_ids) for response in responses]
    return {
        "step": step,
        "policy_lag": step - 1 - min(response.version for response in responses),
        "mean_raw_reward": mean([value for values in judged.raw for value in values]),
        "mean_reward": mean([value for values in judged.rewards for value in values]),
        "responses": len(responses),
        "groups": len(groups),
        "rejected": dict(sorted(judged.rejected.items())),
        "not_judged": dict(sorted(judged.failures.items())),
        "trained_responses": len(judged.batch),
        "advantages_digest": digest([item.advantage for item in judged.batch]) if judged.batch else None,
        "mean_tokens": mean(lengths),
        "mean_tokens_right": mean(right) if right else None,
        "max_tokens": max(lengths),
        "truncated": mean([response.finish_reason == "length" for response in responses]),
    }


def by_domain(
    prompts: Sequence[Prompt], groups: Sequence[Sequence[Response]], raw: Sequence[Sequence[float]]
) -> dict[str, dict[str, float]]:
    """What the curves of a mixed stage are drawn from: domain -> facts of its responses."""
    found = {}
    for domain in sorted({prompt.domain for prompt in prompts}):
        mine = [place for place, prompt in enumerate(prompts) if prompt.domain == domain]
        responses = [response for place in mine for response in groups[place]]
        found[domain] = {
            "mean_raw_reward": mean([value for place in mine for value in raw[place]]),
            "responses": len(responses),
            "mean_tokens": mean([len(response.token_ids) for response in responses]),
            "truncated": mean([response.finish_reason == "length" for response in responses]),
        }
    return found


def policy_directory(run: Path, version: int) -> Path:
    return run / "policies" / f"version_{version:03d}"


def saved_versions(stage: RLStage, train_prompts: int) -> set[int]:
    """Versions whose policy is kept as a Hugging Face directory; the last is always one."""
    saves = stage.checkpoints
    versions = {*range(saves.save_every_steps, stage.steps + 1, saves.save_every_steps), stage.steps}
    if saves.save_every_epochs is not None:
        epochs = saves.save_every_epochs * steps_per_epoch(train_prompts, stage.batch_size, stage.drop_last)
        versions |= {*range(epochs, stage.steps + 1, epochs)}
    return versions
