"""What the keys of an RL stage must satisfy together. When the stage starts, only whether the
prompts that are there suffice is checked again.

Each problem is `path: message`, as in `zgcm.config.crosscheck`, which lists them.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from zgcm.config.rl import DemoPrompts, RLStage, steps_per_epoch
from zgcm.config.stages import TrainStage

if TYPE_CHECKING:
    from zgcm.config.recipe import Recipe


def rl_problems(recipe: "Recipe", at: str, stage: RLStage) -> Iterator[str]:
    yield from _lengths(recipe, at, stage)
    yield from _groups(at, stage)
    yield from _steps(at, stage)
    yield from _reward(at, stage)


def _lengths(recipe: "Recipe", at: str, stage: RLStage) -> Iterator[str]:
    """Prompt and response must fit the engines, the learner and what the policy was trained for."""
    start = recipe.stages[stage.init]
    rollout, sampling = stage.rollout, stage.rollout.sampling
    longest = min(stage.max_prompt_tokens + sampling.max_new_tokens, sampling.max_tokens)
    if longest > stage.learner.max_tokens_per_microbatch:
        yield (
            f"{at}.learner.max_tokens_per_microbatch: {stage.learner.max_tokens_per_microbatch} cannot hold "
            f"the longest trajectory, {longest} tokens of prompt and response"
        )
    if isinstance(start, TrainStage) and rollout.max_model_len > start.seq_length:
        yield (
            f"{at}.rollout.max_model_len: {rollout.max_model_len} is longer than {stage.init} was trained "
            f"for (seq_length {start.seq_length})"
        )
    for key, wanted in (("rollout", sampling), ("evaluation", stage.evaluation.sampling)):
        if wanted.max_tokens > rollout.max_model_len:
            yield (
                f"{at}.{key}.sampling.max_tokens: {wanted.max_tokens} exceeds rollout.max_model_len "
                f"{rollout.max_model_len}"
            )
        if wanted.max_tokens <= stage.max_prompt_tokens:
            yield (
                f"{at}.{key}.sampling.max_tokens: {wanted.max_tokens} leaves no room for a response to a "
                f"prompt of max_prompt_tokens {stage.max_prompt_tokens}"
            )


def _groups(at: str, stage: RLStage) -> Iterator[str]:
    """The responses to a prompt must be able to differ, or none has an advantage."""
    at += ".rollout.sampling"
    sampling = stage.rollout.sampling
    if sampling.n_samples < 2:
        yield f"{at}.n_samples: a group of 1 has no spread, so no advantage; use at least 2"
    if sampling.greedy or sampling.temperature == 0:
        key = "greedy" if sampling.greedy else "temperature"
        yield f"{at}.{key}: all responses to a prompt would be the same, so none has an advantage; sample"
    if sampling.ignore_eos:
        yield f"{at}.ignore_eos: every response would be cut off and earn 0; it is for benchmarks"


def _steps(at: str, stage: RLStage) -> Iterator[str]:
    responses = stage.batch_size * stage.rollout.sampling.n_samples
    if stage.learner.minibatches > responses:
        yield (
            f"{at}.learner.minibatches: {stage.learner.minibatches} updates a step, but it has only "
            f"batch_size x n_samples = {responses} responses"
        )
    rows = stage.training_prompts()
    if rows is None:
        return
    per_epoch = steps_per_epoch(rows, stage.batch_size, stage.drop_last)
    if per_epoch == 0:
        yield f"{at}.batch_size: {stage.batch_size} prompts a step, but there are only {rows}"
    elif stage.steps > per_epoch * stage.epochs:
        yield (
            f"{at}.steps: {stage.steps}, but {rows} prompts give {per_epoch} steps an epoch x {stage.epochs} "
            f"epochs = {per_epoch * stage.epochs}"
        )


def _reward(at: str, stage: RLStage) -> Iterator[str]:
    url = stage.reward.sandbox.url
    if stage.domain in ("code", "if") and stage.reward.length_penalty is not None:
        yield f"{at}.reward.length_penalty: only mathematics has one (as published); leave it out"
    if stage.domain in ("math", "code") and stage.reward.open_instruct is not None:
        yield f"{at}.reward.open_instruct: only instructions are checked with it; leave it out"
    if stage.reward.sandbox.token_file is not None and url is None:
        yield f"{at}.reward.sandbox.token_file: is of a service at `url`; the stage's own makes its token"
    if isinstance(stage.prompts, DemoPrompts):
        if stage.runs_programs() and url is not None:
            yield f"{at}.reward.sandbox.url: that service has no tests of demo prompts; leave it out"
    elif stage.domain == "code" and stage.prompts.assets is None and url is None:
        yield (
            f"{at}.prompts.assets: programs cannot be judged without tests; give their directory, or "
            "reward.sandbox.url of a service that has them"
        )
