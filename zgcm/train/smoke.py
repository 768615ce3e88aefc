"""`zgcm train STAGE --smoke N`: the first N steps of the real stage, and nothing left of them.

The engine gets the arguments of the real run without those that save, so the schedule, the order of the data
and the losses are the real run's. It works in results/.smoke_STAGE, which is removed at the end; what a kill
left there goes with the next smoke run.
"""

import shutil
import statistics
import sys
from pathlib import Path
from typing import Any

from zgcm import numbers
from zgcm.config.recipe import Recipe
from zgcm.errors import ZgcmError
from zgcm.io import write_json
from zgcm.layout import Layout
from zgcm.rundir import owner
from zgcm.rundir.runs import read_lines
from zgcm.stopping import Stopped
from zgcm.train import losslog, stopped
from zgcm.train.arguments import Options, megatron_argv, plan, train_stage
from zgcm.train.inputs import Inputs, gather
from zgcm.train.launch import Outcome, launch
from zgcm.train.run import first_iteration, load_options, trainer_settings

LEAVING = ("--save", "--async-save", "--wandb-project")
"""First words of the option lines that leave something behind."""


def smoke(recipe: Recipe, layout: Layout, name: str, steps: int) -> dict[str, Any]:
    """Returns stage, steps, stage_steps, losses, learning_rates, seconds_per_step, tokens_per_second.

    The speed is the median of all steps but the first, which warms up; None for one step. Raises ZgcmError
    when the stage cannot start, has fewer steps, or the trainer fails.
    """
    inputs = gather(recipe, layout, name)
    length, start = plan(recipe, layout, name), first_iteration(recipe, name, inputs)
    if steps > length.iterations - start:
        raise ZgcmError(
            "The stage has fewer steps than the smoke run asks for",
            where=f"stages.{name}.schedule",
            found=f"{length.iterations - start} steps",
            expected=f"at least {steps}",
        )
    scratch = layout.root / f".smoke_{name}"
    with owner.owning(scratch) as me:
        try:
            clear(scratch)
            told = settings(recipe, layout, name, inputs, scratch, start + steps)
            write_json(scratch / "trainer.json", told)
            print(
                f"zgcm: {name}: starting the trainer for {numbers.counted(steps, 'step')}; that alone takes "
                "some 20 s",
                file=sys.stderr,
            )
            outcome = launch(train_stage(recipe, name).resources, scratch, me.token, scratch / "trainer.log")
            return facts(name, scratch, outcome, steps, length.iterations - start)
        finally:
            shutil.rmtree(scratch)


def clear(scratch: Path) -> None:
    """Remove what a killed smoke run left; the owner's files are ours by now."""
    for path in scratch.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in (owner.NAME, owner.LOCK):
            path.unlink()


def settings(
    recipe: Recipe, layout: Layout, name: str, inputs: Inputs, scratch: Path, last: int
) -> dict[str, Any]:
    """What zgcm.train.entry reads: the real run's in the scratch directory, to end after iteration `last`."""
    length = plan(recipe, layout, name)
    (scratch / "checkpoints").mkdir()
    options = leaving_nothing(megatron_argv(recipe, layout, name, scratch, length))
    options.append(load_options(recipe, layout, name, scratch, inputs, resuming=False))
    options.append(["--exit-interval", str(last)])  # the only multiple of it on the way is itself
    argv = [part for option in options for part in option]
    told = trainer_settings(recipe, name, scratch, inputs, length, argv)
    return {**told, "log_interval": 1, "trackers": []}


def leaving_nothing(options: list[Options]) -> list[Options]:
    return [option for option in options if option[0] not in LEAVING]


def facts(name: str, scratch: Path, outcome: Outcome, steps: int, stage_steps: int) -> dict[str, Any]:
    """What the steps showed. Raises ZgcmError when they were not all taken."""
    taken = losslog.read_losses(scratch)
    if outcome.returncode or len(taken) < steps:
        raise failure(name, scratch, outcome, len(taken), steps)
    speeds = list(read_lines(scratch / losslog.SPEED))

    def median(key: str) -> float | None:
        return statistics.median(speed[key] for speed in speeds) if speeds else None

    return {
        "stage": name,
        "steps": steps,
        "stage_steps": stage_steps,
        "losses": [record["loss"] for record in taken],
        "learning_rates": [record["learning_rate"] for record in taken],
        "seconds_per_step": median("seconds_per_iteration"),
        "tokens_per_second": median("tokens_per_second"),
    }


def failure(name: str, scratch: Path, outcome: Outcome, taken: int, steps: int) -> ZgcmError:
    """The trainer's own reason where it gave one, else its last lines: the log is removed with the rest."""
    if (scratch / stopped.NAME).exists():
        return stopped.read(scratch / stopped.NAME)
    if outcome.signalled:
        return Stopped(outcome.signalled, f"{taken} of {steps} steps were taken, nothing was saved")
    return ZgcmError(
        f"The trainer of {name} ended after {taken} of {steps} steps; its last lines:\n    "
        + "\n    ".join(outcome.last_lines)
        + "\n",
        found=f"exit code {outcome.returncode}",
    )
