"""A few steps of a stage through the real trainer, on this node alone, on made-up text: no data is needed.

The model, the precision, the optimizer and the tensor-parallel size are the stage's own. Context, pipeline
and sequence length shrink by as much as a node is too small for the stage's layout; the batch is two
micro-batches a process.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zgcm.config.recipe import Recipe, deep_merge
from zgcm.config.stages import TrainStage
from zgcm.errors import ZgcmError
from zgcm.io import write_json
from zgcm.layout import Layout
from zgcm.preflight.text import EOD, write_text
from zgcm.rundir import manifest, owner
from zgcm.stopping import Interrupted
from zgcm.train import losslog
from zgcm.train.arguments import Plan, megatron_argv
from zgcm.train.inputs import Inputs
from zgcm.train.launch import launch
from zgcm.train.run import trainer_settings

STEPS_BETWEEN_SAVES = 1_000_000  # only the end of training saves


@dataclass(frozen=True)
class Trial:
    """How a trial ended. `losses` of each step; `checkpoint` is None where nothing was to be saved."""

    losses: list[float]
    checkpoint: Path | None


def single_node(stage: TrainStage) -> dict[str, Any]:
    """Changes that fit a stage's layout into one node: context shrinks first, then pipeline; TP never.

    Raises ZgcmError when a node holds no whole tensor-parallel group.
    """
    width, parallel = stage.resources.processes_per_node, stage.parallel
    if width % parallel.tensor:
        raise ZgcmError(
            "A node does not hold a whole tensor-parallel group",
            found=f"{width} processes, tensor {parallel.tensor}",
            hint="resources.processes_per_node must be a multiple of parallel.tensor",
        )
    context, pipeline, room = parallel.context, parallel.pipeline, width // parallel.tensor
    while room % (context * pipeline) and context > 1:
        context = largest_divisor(context)
    while room % (context * pipeline) and pipeline > 1:
        pipeline = largest_divisor(pipeline)
    return {
        "parallel": {"context": context, "pipeline": pipeline},
        "resources": {"nodes": 1},
        "seq_length": stage.seq_length * context // parallel.context,
    }


def largest_divisor(number: int) -> int:
    """Below the number itself."""
    return next(part for part in range(number // 2, 0, -1) if number % part == 0)


def trial_stage(stage: TrainStage, steps: int, **changes: Any) -> TrainStage:
    """The stage as a trial of so many steps; `changes` as in a recipe."""
    width = stage.resources.processes_per_node
    own = {
        **{"kind": "pretrain", "init": None, "continues": False, "data_order": "sequential"},
        **{"mix": {"preflight": 1.0}, "data_split": "100,0,0", "eval_iters": 0},
        "global_batch_size": 2 * width * stage.micro_batch_size,
        **{"expected_train_tokens": None, "expected_train_records": None},
        "trackers": [],
    }
    settings = deep_merge(deep_merge(stage.model_dump(), single_node(stage)), own)
    settings["schedule"] = {"train_iters": steps, "lr_warmup_iters": steps // 10}
    return TrainStage.model_validate(deep_merge(settings, changes))


def run_trial(
    recipe: Recipe, stage: TrainStage, run: Path, log: Path, *, save: bool = False, load: Path | None = None
) -> Trial:
    """Train for `stage.schedule.train_iters` steps in the new directory `run`, then save if asked to.

    With `load`, a directory with a checkpoint of as many steps, nothing is trained: it is loaded and saved.
    The trainer's output goes to `log`. Raises ZgcmError with its error when it fails.
    """
    name, steps = "preflight", int(stage.schedule.train_iters or 0)
    recipe = recipe.model_copy(update={"stages": {name: stage}})
    (run / "checkpoints").mkdir(parents=True)
    prefix = run / "text"
    write_text(prefix, recipe.tokenizer.vocab_size, steps * stage.global_batch_size * stage.seq_length + 1)
    length = Plan(steps, STEPS_BETWEEN_SAVES)
    argv = [
        part
        for option in megatron_argv(recipe, Layout(run), name, run, length)
        for part in trial_option(option, save, load)
    ]
    argv += [] if load is None else ["--load", str(load)]
    inputs = Inputs({}, [str(prefix)], [1.0], 0, EOD, None)
    write_json(run / "trainer.json", trainer_settings(recipe, name, run, inputs, length, argv))
    with owner.owning(run) as me:
        outcome = launch(stage.resources, run, me.token, log)
    if outcome.signalled:  # no finding about this machine
        raise Interrupted(128 + outcome.signalled)
    saved = run / "checkpoints" / f"iter_{steps:07d}"
    losses = [row["loss"] for row in losslog.read_losses(run)]
    whole = manifest.is_complete(saved) if save else len(losses) == steps
    # Under torch.distributed.run a trainer that has saved may still end with 1: the checkpoint decides.
    if not whole or (outcome.returncode and not save):
        raise ZgcmError(
            f"The trainer failed: {error_line(log)}", where=str(log), found=f"exit code {outcome.returncode}"
        )
    return Trial(losses, saved if save else None)


def trial_option(option: list[str], save: bool, load: Path | None) -> list[str]:
    """An option of the stage in a trial: no tokenizer is read, nothing saved unless asked to."""
    if option[0] == "--tokenizer-type":
        return ["--tokenizer-type", "NullTokenizer"]
    if option[0] == "--dataloader-type" and load is not None:
        return ["--dataloader-type", "external"]  # megatron-core's own refuse to have no sample left
    if option[0] == "--save" and not save:
        return []
    return option


def error_line(log: Path) -> str:
    """The first line of a log that names an exception, without its rank; else the last line."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"(\[rank\d+\]: *)?(zgcm: |[\w.]*(Error|Exception)\b)", line)]
    found = [*named, *lines[-1:], "it printed nothing"][0]
    return re.sub(r"^\[rank\d+\]: *", "", found)
