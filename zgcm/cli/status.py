"""`zgcm status`: how far each stage is, and why a finished one is stale."""

import contextlib
import time
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from zgcm.cli.opened import Opened, recipe_verb

COLUMNS = ("stage", "state", "job", "nodes", "step", "loss or reward", "tokens/s", "left")
SHOWN = 2  # jobs of a step that are named
CLEAR = "\033[H\033[J"  # of a terminal: to its top, and empty from there


@recipe_verb()
def status(
    opened: Opened,
    watch: Annotated[
        float | None,
        typer.Option(
            min=1, max=86400, metavar="SECONDS", help="Show it again every so many seconds, until Ctrl-C."
        ),
    ] = None,
) -> None:
    """State of every stage: done, running, interrupted, stopped, stale or waiting.

    Reads files only, and on a cluster Slurm's queue; safe at any time, beside a running pipeline or from a
    login node. Until the mixes are made it also shows how far the data is, and what of it is stale or has
    failed. A running stage shows its Slurm job and nodes, step, loss, speed and time left; a stale one names
    the recipe keys that changed since it was made; a stopped one its reason. Changed raw data is not looked
    at here: `zgcm run -n` tells.
    """
    if watch is None:
        show(opened)
        return
    from zgcm.stopping import Interrupted

    with contextlib.suppress(Interrupted):
        while True:
            show(opened, again=not opened.as_json)
            time.sleep(watch)


def show(opened: Opened, again: bool = False) -> None:
    from zgcm.data_status import data_states
    from zgcm.rundir.stamp import check_stamp
    from zgcm.status import stage_states
    from zgcm.terminal import wrapped

    check_stamp(opened.layout.stamp, opened.recipe.name)
    rows = stage_states(opened.recipe, opened.layout)
    done = sum(row["state"] == "done" for row in rows)
    where = opened.results if opened.results.is_dir() else f"{opened.results}, which does not exist"
    said = [f"{opened.recipe.name}: {done} of {len(rows)} stages done in {where}"]
    if not opened.layout.stamp.exists():
        said.append(
            "Nothing has run here yet. With the same options zgcm run begins; zgcm run -n says with what"
        )
    elif done < len(rows) and (data := data_states(opened.recipe, opened.layout)):
        said = [*data_table(data), "", *said]
    opened.say(rows, CLEAR * again + "\n".join([*table(rows), *wrapped("\n".join(said))]))


def data_table(rows: list[dict[str, Any]]) -> list[str]:
    """One line a step before training: how much is made, and what is stale, has failed or begun."""
    from zgcm.terminal import aligned, noted

    lines = aligned([("data", "made"), *((row["step"], f"{row['made']:,} of {row['of']:,}") for row in rows)])
    return [
        "",
        *noted(padded(lines), ["stale, failed or begun, and its log last written", *map(remarks, rows)]),
    ]


def remarks(row: dict[str, Any]) -> str:
    """Outputs of another recipe; jobs without an output, failed ones and those that were heard of last first;
    on a cluster how many the queue holds."""
    from zgcm import numbers

    found = sorted(row["begun"], key=lambda job: (job["failed"] is None, job["seconds"]))
    said = [f"{row['stale']:,} stale (zgcm run -n says why)"] if row["stale"] else []
    for job in found[:SHOWN]:
        failed = f" failed, see {job['failed']}," if job["failed"] else ""
        said.append(f"{job['name']}{failed} {numbers.duration(job['seconds'])} ago")
    said += [f"{len(found) - SHOWN} more"] if len(found) > SHOWN else []
    said += [f"{row[state]:,} {state} in Slurm's queue" for state in ("running", "waiting") if row[state]]
    return ", ".join(said)


def table(rows: list[dict[str, Any]]) -> list[str]:
    """One line a stage, in columns; a column in which no stage has anything is left out."""
    from zgcm import numbers
    from zgcm.status import last_value
    from zgcm.terminal import aligned, noted

    cells: list[Sequence[str]] = []
    for row in rows:
        total = "?" if row["steps"] is None else f"{row['steps']:,}"
        step = f"{row['step']:,} of {total}" if row["run_id"] else f"{total} step{'s' * (total != '1')}"
        speed, left = row["tokens_per_second"], row["seconds_left"]
        cells.append(
            [
                *(row["stage"], row["state"], row["job"] or "", row["nodes"] or "", step, last_value(row)),
                numbers.count(speed) if speed is not None else "",
                numbers.duration(left) if left is not None else "",
            ]
        )
    shown = [at for at in range(len(COLUMNS)) if any(cell[at] for cell in cells)]
    lines = aligned([[cell[at] for at in shown] for cell in [COLUMNS, *cells]])
    count = len(rows) + 1  # columns that do not fit come below
    return [*noted(padded(lines[:count]), ["", *(row["detail"] for row in rows)]), *lines[count:]]


def padded(lines: list[str]) -> list[str]:
    """So that what follows them stands in a column."""
    width = max(map(len, lines))
    return [line.ljust(width) for line in lines]
