"""Reads what a stage left behind: its run directory, losses, speed, and the facts of who ran it where."""

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zgcm.errors import ZgcmError
from zgcm.io import Object, parse_json, read_json
from zgcm.layout import Layout


def read_done(layout: Layout, stage: str) -> dict[str, Any] | None:
    path = layout.done(stage)
    return read_json(path) if path.is_file() else None


def current_run(layout: Layout, stage: str, recipe_id: str = "") -> Path | None:
    """The run directory that `done` names; before that, the one written to last, of `recipe_id` if one is."""
    done = read_done(layout, stage)
    if done is not None:
        return layout.runs(stage) / done["run_id"]
    runs = [path for path in layout.runs(stage).glob("*") if path.is_dir()]
    return max(runs, key=lambda run: (made_with(run) == recipe_id, last_written(run)), default=None)


def made_with(run: Path) -> str | None:
    """The recipe_id whose result a run makes; None where it was not recorded."""
    return read_json(run / "run.json").get("recipe_id") if (run / "run.json").is_file() else None


def last_written(run: Path) -> float:
    """Time of the last sign of work in a run directory, seconds since the epoch."""
    names = ("loss.jsonl", "reward.jsonl", "owner.json", "stopped.json", "run.json")
    times = [path.stat().st_mtime for name in names if (path := run / name).is_file()]
    return max(times, default=0.0)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a JSON Lines file that may still be growing: an unfinished last line is left for next time.

    Raises ZgcmError naming file and line when any other line is no JSON object. A missing file has no rows.
    """
    if not path.is_file():
        return
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.endswith(b"\n"):
                return
            yield _row(line, f"{path}:{number}")


def last_line(path: Path) -> dict[str, Any] | None:
    """The last finished row without reading the whole file: 80,000 steps are 15 MB."""
    if not path.is_file():
        return None
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - 16384))
        lines = stream.read().split(b"\n")[:-1]
    return _row(lines[-1], f"{path} (last line)") if lines else None


def _row(line: bytes, where: str) -> dict[str, Any]:
    try:
        row = parse_json(line)
    except ValueError as error:
        raise ZgcmError("Not valid JSON", where=where, found=str(error), hint="restore the file") from error
    if not isinstance(row, dict):
        raise ZgcmError(
            "A line is no record", where=where, found=line[:40].decode(errors="replace").strip(),
            expected="one JSON object a line", hint="restore the file",
        )  # fmt: skip
    known = Object(row)
    known.file = Path(where)
    return known


def attempts(run: Path) -> list[dict[str, Any]]:
    """Every attempt at a run from run.json: started, ended (absent while it runs, or when it was killed; both
    seconds since the epoch), argv, host, commit, versions."""
    path = run / "run.json"
    return read_json(path)["attempts"] if path.is_file() else []


def seconds(run: Path) -> float | None:
    """Wall time of a run over its attempts; one that was killed counts nothing, the present one until now."""
    tried = attempts(run)
    if not tried:
        return None
    now = {"ended": last_written(run), **tried[-1]}
    spent = [item["ended"] - item["started"] for item in [*tried[:-1], now] if "ended" in item]
    return max(sum(spent), 0.0)


def tokens_per_second(run: Path) -> float | None:
    """Median over the run's throughput log, so that neither start nor saves count; None without a log."""
    speeds = [
        row["tokens_per_second"] for row in read_lines(run / "speed.jsonl") if "tokens_per_second" in row
    ]
    return statistics.median(speeds) if speeds else None
