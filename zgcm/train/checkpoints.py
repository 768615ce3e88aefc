"""Which checkpoints of a run are whole, which one to resume from, and which may go. No torch here.

A checkpoint `iter_0000100` is complete iff its manifest exists: it is written last and holds the size and
SHA-256 of every file. Megatron's tracker file names only complete ones.
"""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zgcm.errors import ZgcmError
from zgcm.io import read_json, write_text
from zgcm.rundir import manifest

TRACKER = "latest_checkpointed_iteration.txt"
Usable = Callable[[int, dict[str, Any]], bool]


def checkpoint_path(checkpoints: Path, iteration: int) -> Path:
    return checkpoints / f"iter_{iteration:07d}"


def complete_iterations(checkpoints: Path) -> list[int]:
    """Iterations of the complete checkpoints, ascending."""
    names = [path.name.removeprefix("iter_") for path in checkpoints.glob("iter_*")]
    found = sorted(int(name) for name in names if name.isdigit())
    return [i for i in found if manifest.is_complete(checkpoint_path(checkpoints, i))]


def always(iteration: int, facts: dict[str, Any]) -> bool:
    return True


def latest_whole(checkpoints: Path, is_usable: Usable = always) -> tuple[int, dict[str, Any]] | None:
    """The newest usable checkpoint whose files match its manifest: (iteration, manifest).

    A damaged one is set aside under another name, with a message, and the one before it is tried.
    `is_usable` judges by iteration and manifest.
    """
    for iteration in reversed(complete_iterations(checkpoints)):
        path = checkpoint_path(checkpoints, iteration)
        try:
            if not is_usable(iteration, read_json(path / manifest.NAME)):
                continue
            return iteration, manifest.verify_manifest(path)
        except ZgcmError as error:
            aside = next(
                name
                for n in range(1, 1000)
                if not (name := path.with_name(f"damaged_{path.name}_{n}")).exists()
            )
            path.rename(aside)
            print(f"zgcm: {error.paragraph()} Set aside as {aside}; trying the one before.", file=sys.stderr)
    return None


def remove_incomplete(checkpoints: Path) -> None:
    """Give back the room that killed saves take. Only the run's owner may call it, with no trainer alive."""
    for path in checkpoints.glob("iter_*"):
        if not manifest.is_complete(path):
            shutil.rmtree(path)


def discard(checkpoints: Path, is_usable: Usable) -> None:
    """Remove complete checkpoints that are not usable. The tracker names none of them."""
    for iteration in complete_iterations(checkpoints):
        path = checkpoint_path(checkpoints, iteration)
        try:
            facts = read_json(path / manifest.NAME)
        except ZgcmError:
            continue  # a damaged one; `latest_whole` sets it aside
        if not is_usable(iteration, facts):
            remove(path)


def remove(checkpoint: Path) -> None:
    """The manifest goes first, so a half-removed one is incomplete."""
    (checkpoint / manifest.NAME).unlink()
    shutil.rmtree(checkpoint)


def write_tracker(checkpoints: Path, iteration: int | None) -> None:
    """Point megatron's tracker file at a checkpoint, or at none."""
    if iteration is None:
        (checkpoints / TRACKER).unlink(missing_ok=True)
    else:
        write_text(checkpoints / TRACKER, str(iteration))


def link_initial(directory: Path, checkpoint: Path) -> Path:
    """A checkpoint directory that holds nothing but a link to another run's checkpoint; returns it.

    Adopted weights without an iteration are a `release`, as Megatron calls it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    link = directory / checkpoint.name
    if not link.is_symlink():
        link.symlink_to(checkpoint.resolve(), target_is_directory=True)
    named = checkpoint.name.removeprefix("iter_")
    write_text(directory / TRACKER, str(int(named)) if named.isdigit() else named)
    return directory


def clear_unfinished(checkpoint: Path) -> None:
    """Empty what a killed save left, so that no stale file enters the new manifest."""
    if checkpoint.is_dir():
        shutil.rmtree(checkpoint)
    checkpoint.mkdir(parents=True)


def prune(checkpoints: Path, keep_recent: int, keep_every: int | None, reach: int = 0) -> None:
    """Remove older complete checkpoints.

    Kept: the newest `keep_recent`, every `keep_every`-th iteration, and the newest one from before the last
    `reach` iterations, which is where a loss spike may send the run back to; as long as there is none so old,
    the oldest, which will be it.
    """
    complete = complete_iterations(checkpoints)
    if not complete:
        return
    before = [iteration for iteration in complete if iteration <= complete[-1] + 1 - reach]
    keep = {*complete[-keep_recent:], before[-1] if before else complete[0]}
    for iteration in complete:
        if iteration in keep or (keep_every and iteration % keep_every == 0):
            continue
        remove(checkpoint_path(checkpoints, iteration))
