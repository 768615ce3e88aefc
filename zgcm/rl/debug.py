"""Half a training loop, to look at: rollouts and rewards without a learner; the learner alone on a dump.

Neither touches a stage's results. The numbers are the loop's own: the update of step 1 from a dump gives step
1's line of `reward.jsonl`, digit for digit; with rollouts one update ahead, step 2's too.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zgcm.config.recipe import Recipe
from zgcm.config.rl import RLStage
from zgcm.errors import ZgcmError
from zgcm.layout import Layout
from zgcm.rl import dump
from zgcm.rl.prepare import prepare_run, say
from zgcm.rl.rewards.shaping import mean
from zgcm.rl.steps import judge, prompts_of, requests_of

FILE = "rollouts.parquet"


def rollout_only(
    recipe: Recipe, layout: Layout, name: str, *, steps: int, output: Path | None = None
) -> dict[str, Any]:
    """Sample and reward the prompts of the first `steps` steps with the initial policy; write a dump.

    Without `output` it goes to the run's directory. Returns where it is and what it holds. Raises ZgcmError.
    """
    from zgcm.rl.actors import Rollouts
    from zgcm.rl.rewards.router import judges

    run, facts = prepare_run(recipe, layout, name)
    stage = run.stage
    if steps > stage.steps:
        raise ZgcmError(
            "The stage has fewer steps", where="--steps", found=str(steps), expected=f"at most {stage.steps}"
        )
    rows: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory(prefix="zgcm-rl-") as scratch,
        judges(stage, run.train, run.special_tokens, Path(scratch)) as judging,
        _actors(stage, stage.rollout.engines) as cpu,
    ):
        rollouts = Rollouts(run.policy, stage, cpu=cpu)
        rollouts.wait_ready()
        for step in range(steps):
            prompts = prompts_of(stage, run.train, step)
            asked = requests_of(stage, prompts, "train", step)
            groups = rollouts.generate(asked, stage.rollout.sampling)
            judged = judge(run, judging, prompts, groups)
            rows += dump.rows_of(step + 1, prompts, groups, judged, run.tokenizer)
            raw = mean([value for values in judged.raw for value in values])
            left_out = len(groups) - judged.left_out.count(None)
            say(f"{name} {step + 1}/{steps} reward {raw:.3f} groups left out {left_out}/{len(groups)}")
    path = output or run.directory / FILE
    dump.write_dump(path, rows, stage=name, policy=facts["inputs"]["policy"])
    return {
        "dump": str(path),
        "steps": steps,
        "responses": len(rows),
        "trained_responses": sum(row["left_out"] is None for row in rows),
        "mean_raw_reward": mean([row["raw_reward"] for row in rows]),
    }


def train_only(recipe: Recipe, layout: Layout, name: str, path: Path) -> list[dict[str, Any]]:
    """Update the initial policy with each step of a dump. Returns what the learner says of each step.

    Nothing is written. The stage's learner settings may differ from those that the dump was made with.
    Raises ZgcmError for the dump of another stage or of another initial policy.
    """
    from zgcm.rl.actors import Learners

    found = dump.read_dump(path)
    run, facts = prepare_run(recipe, layout, name)
    for what, mine, other in (
        ("stage", name, found.stage),
        ("initial policy", facts["inputs"]["policy"], found.policy),
    ):
        if mine != other:
            raise ZgcmError(f"The dump of another {what}", where=str(path), found=other, expected=mine)
    stage = run.stage
    lines = []
    with _actors(stage, stage.learner.processes) as cpu:
        learners = Learners(run.policy, stage, cpu=cpu)
        learners.build()
        learners.wait_ready()
        for step, batch in found.batches.items():
            update = learners.step(batch, step - 1, stage.steps) if batch else {}
            lines.append({"step": step, "trained_responses": len(batch), **update})
            say(f"{name} {step}: " + (_shown(update) if update else "every group was left out; no update"))
    return lines


def _shown(update: dict[str, float]) -> str:
    names = ("loss", "grad_norm", "entropy", "logprob_gap_mean", "clipped_fraction", "masked_fraction")
    return ", ".join(f"{name.replace('_', ' ')} {update[name]:.4g}" for name in names)


@contextlib.contextmanager
def _actors(stage: RLStage, count: int) -> Iterator[bool]:
    """Ray for `count` actors; yields whether they run on CPUs. Its logs are kept when something fails."""
    from zgcm.rl.nodes import ray_for

    logs = Path(tempfile.mkdtemp(prefix="zgcm-rl-"))
    say(f"Starting Ray and {count} actor(s); that takes up to a minute (logs of a failure: {logs})")
    with ray_for(stage, count, logs / "ray"):
        yield stage.resources.on_cpu
    shutil.rmtree(logs)
