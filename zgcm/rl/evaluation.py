"""Raw correctness of a policy version on the validation prompts, without the length penalty."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from zgcm.rl import markers
from zgcm.rl.experience import by_domain
from zgcm.rl.prompts import MIXED, Prompt
from zgcm.rl.rewards.router import Judges
from zgcm.rl.rewards.shaping import mean
from zgcm.rl.steps import by_kind, score
from zgcm.rl.trajectory import Groups, Request, Response, seed_of

if TYPE_CHECKING:
    from zgcm.rl.actors import Rollouts
    from zgcm.rl.run import Run


def evaluate(run: "Run", rollouts: "Rollouts", judges: Judges) -> dict[str, float]:
    """Statistics of the version that the engines hold, as a marker keeps them.

    Every version answers with the same seeds, so two versions differ by their weights alone.
    """
    settings, valid = run.stage.evaluation, run.valid
    requests = [
        Request(prompt.token_ids, seed_of(run.stage.seed, "evaluation", index))
        for index, prompt in enumerate(valid)
    ]
    groups: Groups = []
    for start in range(0, len(requests), settings.batch_size):
        groups += rollouts.generate(requests[start : start + settings.batch_size], settings.sampling)
    limit = settings.sampling.max_new_tokens
    raw, not_judged = score(run, judges, valid, groups, limit, evaluating=True)
    return statistics(valid, groups, raw, by_kind(not_judged), domain=run.stage.domain)


def statistics(
    prompts: Sequence[Prompt],
    groups: Sequence[Sequence[Response]],
    raw: Sequence[Sequence[float]],
    failures: Mapping[str, int],
    *,
    domain: str,
) -> dict[str, float]:
    """Means over all completions, and the standard error of the mean raw reward, clustered by prompt. Of a
    mixed stage also the means of each domain."""
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
    stats |= {f"eval/not_judged/{kind}": count for kind, count in sorted(failures.items())}
    if domain == MIXED:
        for name, facts in by_domain(prompts, groups, raw).items():
            stats |= {
                f"eval/domain/{name}/raw_correct": facts["mean_raw_reward"],
                f"eval/domain/{name}/completions": facts["responses"],
                f"eval/domain/{name}/response_output_tokens": facts["mean_tokens"],
                f"eval/domain/{name}/response_truncated": facts["truncated"],
            }
    return stats | {
        f"eval/{benchmark}/raw_correct": mean(values)
        for benchmark, values in sorted(benchmarks.items())
        if benchmark
    }
