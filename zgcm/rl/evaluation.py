"""Raw correctness of a policy version on the validation prompts, without the length penalty."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zgcm.config.rl import Sampling
from zgcm.errors import ZgcmError
from zgcm.rl import markers
from zgcm.rl.experience import by_domain
from zgcm.rl.prompts import MIXED, Prompt
from zgcm.rl.rewards.router import Judges
from zgcm.rl.rewards.shaping import mean
from zgcm.rl.steps import by_kind, score
from zgcm.rl.trajectory import Groups, Request, Response, seed_of

if TYPE_CHECKING:
    from zgcm.rl.actors import Rollouts
    from zgcm.rl.prepare import Run


def evaluate(
    run: "Run", rollouts: "Rollouts", judges: Judges, version: int
) -> tuple[dict[str, float], dict[str, Any]]:
    """Statistics of a version, which the engines hold, and what else its marker says of them (`audit`).

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
    facts = audit(valid, groups, raw, version, settings.sampling, domain=run.stage.domain)
    return statistics(valid, groups, raw, by_kind(not_judged), domain=run.stage.domain), facts


def evaluate_and_mark(
    run: "Run", rollouts: "Rollouts", judges: Judges, version: int, *, resumed: bool
) -> dict[str, Any]:
    """Evaluate the version that the engines hold; write and return its marker. `resumed`: it is late."""
    stats, facts = evaluate(run, rollouts, judges, version)
    run.check_owner()
    return markers.write_marker(
        run.directory,
        version,
        phase=markers.phase(version, run.stage.steps, resumed=resumed),
        samples_per_row=run.stage.evaluation.sampling.n_samples,
        stats=stats,
        domain=run.stage.domain,
        facts=facts,
    )


def audit(
    prompts: Sequence[Prompt],
    groups: Sequence[Sequence[Response]],
    raw: Sequence[Sequence[float]],
    version: int,
    sampling: Sampling,
    *,
    domain: str,
) -> dict[str, Any]:
    """The published audit, of the responses themselves and not of their dump: every prompt answered as often
    as asked, by this version; of code every reward 0 or 1. Returns what a marker of code says. Raises
    ZgcmError."""
    where = f"the evaluation of version {version}"
    answered = [len(group) for group in groups]
    if answered != [sampling.n_samples] * len(prompts):
        raise ZgcmError(
            "Not every prompt has its responses", where=where, found=f"{sum(answered)} responses",
            expected=f"{sampling.n_samples} to each of {len(prompts)} prompts",
            hint="logs/ray of the run says more; the same command evaluates the version again",
        )  # fmt: skip
    others = {response.version for group in groups for response in group} - {version}
    if others:
        raise ZgcmError(
            "Another version answered", where=where, found=f"version {min(others)}",
            hint="the same command starts engines anew and evaluates the version again",
        )  # fmt: skip
    if domain != "code":
        return {}
    values = [value for group in raw for value in group]
    if broken := [value for value in values if value not in (0, 1)]:
        raise ZgcmError(
            "A program passes or fails", where=where, found=str(broken[0]), expected="0 or 1",
            hint="correct the service at reward.sandbox.url",
        )  # fmt: skip
    return {
        "rows": len(prompts),
        "unique_task_ids": len({prompt.sample_id for prompt in prompts}),
        "correct": int(sum(values)),
        "score": sum(values) / len(values),
        "valid": True,
        "temperature": sampling.temperature,
    }


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
