"""`zgcm train STAGE --validate-only`: all that can be checked before a process starts, all problems at once.

    report = validate(recipe, contradictions, layout, "sft")     # {"problems": [...], "not_checked": [...]}

Nothing is written and nothing is started. What this machine cannot tell is said under `not_checked`.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zgcm import identity
from zgcm.config.recipe import Recipe
from zgcm.config.stages import TrainStage
from zgcm.errors import ZgcmError
from zgcm.flops import checkpoint_bytes
from zgcm.io import refused
from zgcm.layout import Layout
from zgcm.rundir import owner
from zgcm.rundir.stamp import check_stamp
from zgcm.train import lengths, stopped, trackers
from zgcm.train.arguments import plan, train_stage
from zgcm.train.inputs import Inputs, examine
from zgcm.train.packages import FLASH_2, FLASH_3, is_installed
from zgcm.train.stale import stale_inputs

FP8_CAPABILITY = {"delayed": (8, 9), "tensorwise": (8, 9), "blockwise": (9, 0), "mxfp8": (10, 0)}
"""The least CUDA compute capability of each of Transformer Engine's FP8 recipes."""
Report = dict[str, Any]


def validate(recipe: Recipe, contradictions: list[str], layout: Layout, name: str) -> Report:
    """`contradictions` are those of the recipe; see zgcm.config.load.load_with_contradictions.

    Raises ZgcmError only where there is no such stage.
    """
    stage = train_stage(recipe, name)
    problems = [("recipe", line) for line in contradictions]
    problems += [("results", line) for line in results_problems(recipe, layout)]
    machine, not_checked = machine_problems(stage, name)
    problems += [("machine", line) for line in machine]
    inputs, found = known_inputs(recipe, layout, name)
    problems += [("inputs", line) for line in found]
    problems += [("inputs", line) for line in stale_inputs(recipe, layout, stage)]
    length, found = known_length(recipe, layout, name)
    problems += [("length", line) for line in found]
    run = run_directory(recipe, layout, name, inputs)
    problems += [("run", line) for line in run_problems(run)]
    if run is None:
        not_checked.append("an earlier run with these inputs: its name hangs on inputs that are missing")
    disk: dict[str, int] = {}
    if length:
        disk = disk_need(recipe, layout, name, run)
        problems += [("disk", line) for line in disk_problems(layout, disk)]
    else:
        not_checked.append("disk space for checkpoints: the number of iterations is unknown")
    return {
        "stage": name,
        "problems": [{"check": check, "problem": line} for check, line in unique(problems)],
        "not_checked": not_checked,
        "shards": len(inputs.prefixes) if inputs else 0,
        "tokens": inputs.tokens if inputs else 0,
        "iterations": length,
        "steps": length - lengths.first_iteration(recipe, layout, name) if length else None,
        **disk,
    }


def unique(problems: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Each text once, under the first check that found it."""
    first: dict[str, str] = {}
    for check, text in problems:
        first.setdefault(text, check)
    return [(check, text) for text, check in first.items()]


def results_problems(recipe: Recipe, layout: Layout) -> Iterator[str]:
    """The results directory belongs to this recipe and can be written."""
    try:
        check_stamp(layout.stamp, recipe.name)
    except ZgcmError as error:
        yield error.paragraph()
    existing = nearest_existing(layout.root)
    if not os.access(existing, os.W_OK | os.X_OK):
        denied = refused(PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(existing)))
        assert denied is not None
        yield denied.paragraph()


def machine_problems(stage: TrainStage, name: str) -> tuple[list[str], list[str]]:
    """(problems, what this machine cannot tell): packages and GPUs that the stage's engine needs.

    That Transformer Engine is missing altogether is zgcm.train.inputs' to say.
    """
    problems: list[str] = []
    not_checked: list[str] = []
    if stage.optimizer.kind == "muon" and not is_installed("emerging_optimizers"):
        problems.append(
            f"stages.{name}.optimizer.kind: muon needs emerging-optimizers, which is not installed here; it "
            "belongs to envs/megatron.yaml."
        )
    try:
        trackers.check(stage, name)
    except ZgcmError as error:
        problems.append(error.paragraph())
    if stage.engine == "local":
        return problems, not_checked
    if stage.attention_backend == "flash" and not is_installed(*FLASH_2, *FLASH_3):
        problems.append(
            f"stages.{name}.attention_backend: flash needs FlashAttention 2 or 3, not installed here; "
            "it belongs to envs/megatron.yaml."
        )
    import torch

    if not torch.cuda.is_available():
        not_checked.append(
            f"GPUs ({stage.resources.gpus_per_node} a node) and their FP8: this machine has none"
        )
        return problems, not_checked
    here, asked = torch.cuda.device_count(), stage.resources.processes_per_node
    if here < asked:
        problems.append(f"stages.{name}.resources: {asked} processes a node, and this node has {here} GPUs.")
    capability = torch.cuda.get_device_capability()
    if stage.fp8 and capability < (least := FP8_CAPABILITY[stage.fp8.recipe]):
        problems.append(
            f"stages.{name}.fp8.recipe: {stage.fp8.recipe} needs compute capability {least[0]}.{least[1]}, "
            f"and {torch.cuda.get_device_name()} has {capability[0]}.{capability[1]}."
        )
    return problems, not_checked


def known_inputs(recipe: Recipe, layout: Layout, name: str) -> tuple[Inputs | None, list[str]]:
    """The inputs when all are whole, and every problem with them."""
    try:
        inputs, problems = examine(recipe, layout, name)
    except ZgcmError as error:  # several mixes for SFT: nothing further can be said
        return None, [error.paragraph()]
    return (None if problems else inputs), problems


def known_length(recipe: Recipe, layout: Layout, name: str) -> tuple[int | None, list[str]]:
    try:
        return plan(recipe, layout, name).iterations, []
    except ZgcmError as error:
        return None, [error.paragraph()]


def run_directory(recipe: Recipe, layout: Layout, name: str, inputs: Inputs | None) -> Path | None:
    if inputs is None:
        return None
    return layout.runs(name) / identity.run_id(identity.recipe_id(recipe, "train", name), inputs.digests)


def run_problems(run: Path | None) -> Iterator[str]:
    """The run was stopped, or another process writes it."""
    if run is None or not run.is_dir():
        return
    try:
        stopped.check(run)
    except ZgcmError as error:
        yield error.paragraph()
    try:
        other = owner.read_owner(run)
    except ZgcmError as error:
        yield error.paragraph()
        return
    if other is not None and owner.is_alive(other, run):
        yield owner.refusal(other, run).paragraph()


def disk_need(recipe: Recipe, layout: Layout, name: str, run: Path | None) -> dict[str, int]:
    """Bytes of one checkpoint, how many lie there at most (those kept and the one being written), free space.

    What the run already holds is part of what it needs.
    """
    stage = train_stage(recipe, name)
    size = checkpoint_bytes(recipe.model, recipe.tokenizer.vocab_size, stage.optimizer)
    kept, saved = (
        lengths.checkpoints_kept(recipe, layout, name) or 1,
        lengths.saves(recipe, layout, name) or [0],
    )
    at_once = min(kept + 1, len(saved))
    held = sum(path.stat().st_size for path in run.glob("checkpoints/iter_*/*")) if run else 0
    return {
        "checkpoint_bytes": size,
        "checkpoints": at_once,
        "needed_bytes": max(size * at_once - held, 0),
        "free_bytes": shutil.disk_usage(nearest_existing(layout.runs(name))).free,
    }


def disk_problems(layout: Layout, disk: dict[str, int]) -> list[str]:
    if disk["needed_bytes"] <= disk["free_bytes"]:
        return []
    return [
        f"The disk has no room for the planned checkpoints. at: {layout.root}. "
        f"found: {disk['free_bytes']:,} bytes free. expected: {disk['needed_bytes']:,} "
        f"({disk['checkpoints']} checkpoints of {disk['checkpoint_bytes']:,}). to do: free some, or lower "
        "checkpoints.keep_recent, or raise checkpoints.keep_every."
    ]


def nearest_existing(path: Path) -> Path:
    path = path.absolute()
    return next(place for place in (path, *path.parents) if place.exists())
