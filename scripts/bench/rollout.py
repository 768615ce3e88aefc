"""Tokens a second that the training loop gets out of its engine, over the bare engine's on the same prompts.

    .venv/bin/python scripts/bench/rollout.py --directory .

One JSON line; exit status 1 when the limit is broken. Needs results/export/INIT of the recipe. Both engines
have the stage's settings: one is an actor that the loop's own call asks, requests and responses travelling
through Ray; the other is vLLM in this process, asked directly. They take turns; `ratio` is of the medians
(0.9 is the limit).
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from zgcm.config.load import load_recipe
from zgcm.layout import Layout
from zgcm.rl.environment import CPU_ENVIRONMENT, ENVIRONMENT
from zgcm.rl.prepare import prepare_run
from zgcm.rl.steps import prompts_of, requests_of

LIMIT = 0.9


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipe", type=Path, default=Path("config/tiny.yaml"))
    parser.add_argument("--directory", type=Path, default=Path())
    parser.add_argument("--stage", default="rl_math")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    run, _ = prepare_run(load_recipe([options.recipe]), Layout(options.directory / "results"), options.stage)
    stage, sampling = run.stage, run.stage.rollout.sampling
    cpu = stage.resources.on_cpu
    os.environ.update(ENVIRONMENT | (CPU_ENVIRONMENT if cpu else {}))
    from vllm import LLM, SamplingParams, TokensPrompt

    from zgcm.rl.actors import Rollouts
    from zgcm.rl.nodes import ray_for
    from zgcm.rl.rollout import engine_arguments, sampling_arguments

    requests = requests_of(stage, prompts_of(stage, run.train, 0), "train", 0)
    bare = LLM(**engine_arguments(run.policy, stage.rollout, stage.seed, cpu=cpu))

    def directly() -> int:
        parameters = [
            SamplingParams(**sampling_arguments(sampling, request.seed, len(request.prompt_ids)))
            for request in requests
        ]
        prompts = [TokensPrompt(prompt_token_ids=request.prompt_ids) for request in requests]
        answers = bare.generate(prompts, parameters, use_tqdm=False)
        return sum(len(choice.token_ids) for answer in answers for choice in answer.outputs)

    with (
        tempfile.TemporaryDirectory() as logs,
        ray_for(stage, stage.rollout.engines, Path(logs) / "ray"),
    ):
        rollouts = Rollouts(run.policy, stage, cpu=cpu)
        rollouts.wait_ready()

        def in_the_loop() -> int:
            groups = rollouts.generate(requests, sampling)
            return sum(len(response.token_ids) for group in groups for response in group)

        directly(), in_the_loop()
        rates: dict[str, list[float]] = {"bare": [], "loop": []}
        for _ in range(options.rounds):
            rates["bare"].append(rate(directly))
            rates["loop"].append(rate(in_the_loop))
    loop, alone = statistics.median(rates["loop"]), statistics.median(rates["bare"])
    facts = {"loop_tokens_per_second": round(loop), "bare_tokens_per_second": round(alone)}
    print(
        json.dumps(
            {**facts, "ratio": round(loop / alone, 2), "responses": len(requests) * sampling.n_samples}
        )
    )
    raise SystemExit(loop < LIMIT * alone)


def rate(sample: Callable[[], int]) -> float:
    begun = time.monotonic()
    tokens = sample()
    return tokens / (time.monotonic() - begun)


if __name__ == "__main__":
    main()
