"""Raw correctness of a policy version on the validation prompts, without the length penalty."""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from zgcm.rl import markers
from zgcm.rl.prompts import Prompt
from zgcm.rl.rewards.pool import VerifierPool
from zgcm.rl.rewards.score import Finished, score_math
from zgcm.rl.rewards.shaping import mean
from zgcm.rl.trajectory import Request, Response, seed_of

if TYPE_CHECKING:
    from zgcm.rl.actors import Rollouts
    from zgcm.rl.run import Run


def evaluate(run: "Run", rollouts: "Rollouts", pool: VerifierPool) -> dict[str, float]:
    """Statistics of the version that the engines hold, as a marker keeps them.

    Every version answers with the same seeds, so two versions differ by their weights alone.
    """
    settings, valid = run.stage.evaluation, run.valid
    requests = [
        Request(prompt.token_ids, seed_of(run.stage.seed, "evaluation", index))
        for index, prompt in enumerate(valid)
    ]
    groups: list[list[Response]] = []
    for start in range(0, len(requests), settings.batch_size):
        groups += rollouts.generate(requests[start : start + settings.batch_size], settings.sampling)
    raw = score(run, pool, valid, groups, settings.sampling.max_new_tokens)
    return statistics(valid, groups, raw)


def score(
    run: "Run",
    pool: VerifierPool,
    prompts: Sequence[Prompt],
    groups: Sequence[Sequence[Response]],
    limit: int,
) -> list[list[float]]:
    """Raw correctness of each response of each prompt."""
    flat = [
        Finished(
            run.tokenizer.decode(response.token_ids, skip_special_tokens=False),
            len(response.token_ids),
            response.finish_reason,
            prompt.answers,
        )
        for prompt, group in zip(prompts, groups, strict=True)
        for response in group
    ]
    scores = score_math(flat, pool, max_new_tokens=limit, special_tokens=run.special_tokens)
    values = iter(scores.raw)
    return [[next(values) for _ in group] for group in groups]


def statistics(
    prompts: Sequence[Prompt], groups: Sequence[Sequence[Response]], raw: Sequence[Sequence[float]]
) -> dict[str, float]:
    """Means over all completions, and the standard error of the mean raw reward, clustered by prompt."""
    responses = [response for group in groups for response in group]
    by_prompt = [mean(values) for values in raw]
    total = mean([value for values in raw for value in values])
    spread = math.fsum((value - total) ** 2 for value in by_prompt)
    stats = {
        markers.RAW_REWARD: total,
        "eval/raw_correct_standard_error": math.sqrt(spread / max(len(by_prompt) - 1, 1) / len(by_prompt)),
        markers.COMPLETIONS: len(responses),
        "eval/prompts": len(prompts),
        "eval/response_output_tokens": mean([len(response.token_ids) for response in responses]),
        "eval/response_truncated": mean([response.finish_reason == "length" for response in responses]),
        "eval/response_normal_stop": mean([response.finish_reason == "stop" for response in responses]),
    }
    benchmarks: dict[str, list[float]] = defaultdict(list)
    for prompt, values in zip(prompts, raw, strict=True):
        benchmarks[prompt.benchmark] += values
    return stats | {
        f"eval/{benchmark}/raw_correct": mean(values)
        for benchmark, values in sorted(benchmarks.items())
        if benchmark
    }
