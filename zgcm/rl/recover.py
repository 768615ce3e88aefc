"""Recover points: what a killed run needs to continue as if nothing had happened.

`recover/step_000006/` holds the learner's weights and optimizer state after 6 updates and, where rollouts run
ahead of updates, the responses already sampled for the next step. Seeds and the prompt order are functions of
the step, so there is nothing else to remember. A point without its manifest does not exist.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from zgcm.io import read_json, write_bytes, write_json
from zgcm.rl.trajectory import Groups, Response
from zgcm.rundir.manifest import is_complete, verify_manifest, write_manifest
from zgcm.rundir.runs import read_lines

Pending = Groups | None


def newest(run: Path) -> Path | None:
    """The last complete recover point."""
    complete = [path for path in sorted((run / "recover").glob("step_*")) if is_complete(path)]
    return complete[-1] if complete else None


def newest_step(run: Path) -> int:
    """Updates that the last complete recover point has seen, 0 without one."""
    point = newest(run)
    return int(point.name.removeprefix("step_")) if point else 0


def later_than(run: Path, step: int) -> list[Path]:
    """The recover points after more updates than that."""
    return [path for path in sorted((run / "recover").glob("step_*")) if path.name > f"step_{step:06d}"]


def save(run: Path, step: int, save_state: Callable[[Path], None], pending: Pending, keep: int) -> None:
    """Write the point after `step` updates, then remove all but the `keep` newest and anything incomplete."""
    directory = run / "recover" / f"step_{step:06d}"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    save_state(directory / "learner")
    write_json(directory / "state.json", {"step": step})
    if pending is not None:
        rows = [[asdict(response) for response in group] for group in pending]
        write_json(directory / "pending.json", rows)
    write_manifest(directory, step=step)
    points = sorted((run / "recover").glob("step_*"))
    kept = [path for path in points if is_complete(path)][-keep:]
    for path in points:
        if path not in kept:
            shutil.rmtree(path)


def load(point: Path) -> tuple[int, Pending]:
    """(updates done, responses sampled ahead). Raises ZgcmError for a damaged point."""
    verify_manifest(point)
    path = point / "pending.json"
    pending = None
    if path.exists():
        pending = [[Response(**response) for response in group] for group in read_json(path, kind=list)]
    return int(read_json(point / "state.json")["step"]), pending


def cut_back(path: Path, step: int) -> None:
    """Drop the lines of a metrics file that lie after `step`, and a last line that was cut off."""
    if not path.exists():
        return
    kept = []
    for line, row in zip(path.read_bytes().splitlines(keepends=True), read_lines(path), strict=False):
        if row["step"] > step:
            break
        kept.append(line)
    write_bytes(path, b"".join(kept))


def append(path: Path, record: dict[str, Any]) -> None:
    """One JSON line; Python's repr of a float reads back to the same float."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as stream:
        stream.write(json.dumps(record, allow_nan=False) + "\n")
