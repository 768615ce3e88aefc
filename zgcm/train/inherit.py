"""A run that skips or rewinds spikes begins with what the run that stops at them has trained already.

Up to its first spike a run is the same under every policy. So a stage that was stopped at a spike goes on
when the recipe's policy becomes `skip` or `rewind`, though it is another run: nothing is trained twice.
"""

import math
import os
from collections.abc import Iterator
from pathlib import Path

from zgcm import identity
from zgcm.config.recipe import Recipe
from zgcm.config.stages import Spikes, TrainStage
from zgcm.io import write_bytes
from zgcm.rundir import manifest, owner
from zgcm.train import checkpoints, losslog, spikes


def from_stopping_run(run: Path, recipe: Recipe, name: str, digests: dict[str, str]) -> Path | None:
    """Fill a new run directory from that of the same stage with `policy: stop`. Returns where from."""
    stage = recipe.stages[name]
    assert isinstance(stage, TrainStage)
    if stage.spikes.policy == "stop" or (run / "checkpoints").exists():
        return None
    for recipe_id in stopping_ids(recipe, name):
        other = run.with_name(identity.run_id(recipe_id, digests))
        alive = owner.read_owner(other)
        if other == run or not (other / "checkpoints").is_dir() or (alive and owner.is_alive(alive, other)):
            continue
        take_over(other, run, stage.spikes)
        return other
    return None


def stopping_ids(recipe: Recipe, name: str) -> Iterator[str]:
    """The stage's id with `policy: stop`: in this stage alone, and in every stage before it too."""
    stages = dict(recipe.stages)
    for names in ([name], list(recipe.train_stages())):
        for each in names:
            stages[each] = stages[each].model_copy(update={"spikes": Spikes()})
        yield identity.recipe_id(recipe.model_copy(update={"stages": dict(stages)}), "train", name)


def take_over(other: Path, run: Path, settings: Spikes) -> None:
    """Losses first, then checkpoints, manifests last: a kill in between leaves a shorter start."""
    detector = spikes.Detector(settings)
    seen = (spike.first for row in losslog.read_losses(other) if (spike := detector.see(row)))
    first = next(seen, math.inf)
    write_bytes(run / losslog.LOSS, (other / losslog.LOSS).read_bytes())
    for iteration in checkpoints.complete_iterations(other / "checkpoints"):
        if iteration < first:
            source = checkpoints.checkpoint_path(other / "checkpoints", iteration)
            link(source, checkpoints.checkpoint_path(run / "checkpoints", iteration))


def link(source: Path, target: Path) -> None:
    """Hard links: a checkpoint's files are never changed, and its terabytes are not copied."""
    files = [path for path in source.rglob("*") if path.is_file() and path != source / manifest.NAME]
    for path in [*files, source / manifest.NAME]:
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.unlink(missing_ok=True)
        os.link(path, copy)
