"""`zgcm train STAGE`: own the run directory, resume, start the trainer, judge how it ended, write `done`.

results/{stage}/runs/{run_id}/ holds everything of a run; run_id names its inputs, so a stale checkpoint is
never resumed and going back to an old setting finds the old run.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from zgcm import identity, numbers
from zgcm.config.recipe import Recipe
from zgcm.config.stages import TrainStage
from zgcm.errors import ZgcmError
from zgcm.flops import flops_per_token
from zgcm.io import read_json, write_json
from zgcm.layout import Layout
from zgcm.rundir import owner
from zgcm.slurm.launcher import require_job
from zgcm.train import attempts, checkpoints, inherit, losslog, spikes, stopped, trackers
from zgcm.train.arguments import Plan, load_argv, megatron_argv, plan, train_stage
from zgcm.train.inputs import Inputs, gather
from zgcm.train.launch import launch


def read_done(layout: Layout, stage: str) -> dict[str, Any]:
    """The finished stage's record. Raises ZgcmError when it has not finished."""
    path = layout.done(stage)
    if not path.exists():
        raise ZgcmError(f"Stage {stage} has not finished", where=str(path), hint=f"run: zgcm train {stage}")
    return read_json(path)


def train(recipe: Recipe, layout: Layout, name: str) -> dict[str, Any]:
    """Train a stage to its end, from its last whole checkpoint if there is one. Returns its `done`."""
    stage = train_stage(recipe, name)
    require_job(stage.resources.nodes)
    trackers.check(stage, name)
    inputs = gather(recipe, layout, name)
    length = plan(recipe, layout, name)
    basis = identity.basis(recipe, "train", name)
    recipe_id = identity.digest(basis)
    run = layout.runs(name) / identity.run_id(recipe_id, inputs.digests)
    stopped.check(run)
    with owner.owning(run, recipe_id) as me:
        if (other := inherit.from_stopping_run(run, recipe, name, inputs.digests)) is not None:
            print(f"zgcm: {name} begins with what {other} trained before its spike", file=sys.stderr)
        try:
            manifest = resume_and_train(recipe, layout, name, run, inputs, length, me.token)
        except spikes.TooMany as error:
            stopped.write(run, error)
            raise
        done = {
            "stage": name,
            "kind": stage.kind,
            "recipe_id": recipe_id,
            "run_id": run.name,
            "basis": basis,
            "inputs": inputs.digests,
            **result(layout, run, manifest, stage),
        }
        owner.check(run, me.token)
        write_json(layout.done(name), done)
    return done


def result(layout: Layout, run: Path, manifest: dict[str, Any], stage: TrainStage) -> dict[str, Any]:
    """The part of `done` that the run itself decided."""
    losses = losslog.read_losses(run)
    iteration = manifest["iteration"]
    return {
        "iteration": iteration,
        "consumed_samples": manifest["consumed_samples"],
        "consumed_tokens": manifest["consumed_samples"] * stage.seq_length,
        "first_loss": losses[0]["loss"],
        "final_loss": losses[-1]["loss"],
        "checkpoint": str(
            checkpoints.checkpoint_path(run / "checkpoints", iteration).relative_to(layout.root)
        ),
        "weights_digest": manifest["weights_digest"],
        **({"left_out_after_spikes": spikes.left_out(made)} if (made := spikes.decisions(run)) else {}),
    }


def resume_and_train(
    recipe: Recipe, layout: Layout, name: str, run: Path, inputs: Inputs, length: Plan, token: str
) -> dict[str, Any]:
    """Returns the manifest of the last checkpoint. Raises ZgcmError when training did not get there.

    One attempt; after a loss spike that the recipe says to skip or rewind, the next one at once.
    """
    stage = train_stage(recipe, name)
    directory = run / "checkpoints"
    directory.mkdir(parents=True, exist_ok=True)
    beginning = first_iteration(recipe, name, inputs)
    whole: Checkpoint = None
    while True:
        made = spikes.decide(run, name, stage.spikes, beginning)
        whole = whole if whole and is_usable(made)(*whole) else newest(directory, made)
        if whole is not None:
            losslog.check(run, beginning, whole[0], spikes.left_out(made))
        if whole is not None and whole[0] >= length.iterations:
            checkpoints.prune(directory, *kept(stage))  # the last asynchronous save came after its own
            return whole[1]
        start = beginning if whole is None else whole[0]
        prepare(run, name, start, length, whole, made, beginning)
        argv = [part for option in megatron_argv(recipe, layout, name, run, length) for part in option]
        argv += load_options(recipe, layout, name, run, inputs, resuming=whole is not None)
        settings = trainer_settings(recipe, name, run, inputs, length, argv, made)
        write_json(run / "trainer.json", settings)
        attempt = attempts.begin(run, start, argv, identity.recipe_id(recipe, "train", name))
        outcome = launch(stage.resources, run, token, attempts.log_file(run, attempt))
        whole = newest(directory, made)
        spike = spikes.pending(run)
        attempts.end(run, attempt, start if whole is None else whole[0], outcome, spike)
        if (spike is None or outcome.signalled) and (whole is None or whole[0] < length.iterations):
            raise attempts.judge(run, name, attempt, length.iterations, outcome, beginning)


Checkpoint = tuple[int, dict[str, Any]] | None


def is_usable(made: list[spikes.Decision]) -> checkpoints.Usable:
    """Of a checkpoint: that it learned nothing of what the decisions on spikes leave out."""
    return lambda iteration, facts: spikes.is_usable(iteration, facts.get("spikes", 0), made)


def newest(directory: Path, made: list[spikes.Decision]) -> Checkpoint:
    return checkpoints.latest_whole(directory, is_usable(made))


def prepare(
    run: Path,
    name: str,
    start: int,
    length: Plan,
    whole: Checkpoint,
    made: list[spikes.Decision],
    beginning: int = 0,
) -> None:
    """Bring the run directory to the state of iteration `start`."""
    directory = run / "checkpoints"
    checkpoints.write_tracker(directory, None if whole is None else start)
    checkpoints.discard(directory, is_usable(made))
    checkpoints.remove_incomplete(directory)
    losslog.cut_back(run, start)
    where = numbers.position(start, length.iterations, beginning)
    print(f"zgcm: {name} {'continues' if whole else 'starts'} at {where}", file=sys.stderr)
    for first, last in spikes.left_out(made):
        if last > start:
            print(f"zgcm: {name} leaves out iterations {first} to {last}: a loss spike", file=sys.stderr)


def first_iteration(recipe: Recipe, name: str, inputs: Inputs) -> int:
    """Where a stage without checkpoints begins: at 0, or where the stage that it continues ended."""
    if train_stage(recipe, name).continues and inputs.initial is not None:
        return int(inputs.initial["iteration"])
    return 0


def load_options(
    recipe: Recipe, layout: Layout, name: str, run: Path, inputs: Inputs, resuming: bool
) -> list[str]:
    """Where weights come from: this run, the stage before (its optimizer too if `continues`), or nowhere."""
    if not resuming and inputs.initial is not None:
        checkpoints.link_initial(run / "initial", layout.root / inputs.initial["checkpoint"])
    return load_argv(train_stage(recipe, name), run, resuming=resuming)


def kept(stage: TrainStage) -> tuple[int, int | None, int]:
    """Of checkpoints.prune: recent, every, reach."""
    return stage.checkpoints.keep_recent, stage.checkpoints.keep_every, spikes.reach(stage.spikes)


def trainer_settings(
    recipe: Recipe,
    name: str,
    run: Path,
    inputs: Inputs,
    length: Plan,
    argv: list[str],
    made: Sequence[spikes.Decision] = (),
) -> dict[str, Any]:
    """What zgcm.train.entry reads."""
    stage = train_stage(recipe, name)
    offset = inputs.initial["consumed_samples"] if stage.continues and inputs.initial else 0
    return {
        "stage": name,
        "project": recipe.name,
        "argv": argv,
        "gate": recipe.model.attention_output_gate,
        "data": {
            "order": stage.data_order,
            "prefixes": inputs.prefixes,
            "weights": inputs.weights,
            "split": stage.data_split,
            "sample_offset": offset,
            "vocab_size": recipe.tokenizer.vocab_size,
            "eod": inputs.eod,
            "seq_length": stage.seq_length,
            "seed": stage.seed,
            "cache": str(run / "data-cache"),
            "threads": stage.dataset_builder_threads,
        },
        "run": str(run),
        "iterations": length.iterations,
        "first": first_iteration(recipe, name, inputs),
        "log_interval": stage.log_interval,
        "prefetch": stage.dataloader_prefetch if stage.dataloader_workers else None,
        "keep": kept(stage),
        "spikes": stage.spikes.model_dump(),
        "decisions": len(made),
        "left_out": spikes.left_out(made),
        "flops": asdict(flops_per_token(recipe.model, recipe.tokenizer.vocab_size, stage.seq_length)),
        "trackers": stage.trackers,
    }
