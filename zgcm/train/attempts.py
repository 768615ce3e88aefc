"""`run.json`: every attempt at a run, when, where, with which versions, and how far it came.

The place for what differs from one attempt to the next; `done` has none of it. Two attempts in a row that
failed without a new checkpoint stop the run: repeating them for a hundred retries would burn the cluster.
"""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from zgcm.errors import ZgcmError
from zgcm.io import read_json, write_json
from zgcm.numbers import position
from zgcm.rundir.provenance import circumstances
from zgcm.stopping import Stopped, how_far
from zgcm.train import stopped
from zgcm.train.launch import Outcome
from zgcm.train.spikes import Spike

NAME = "run.json"
PACKAGES = ["torch", "megatron-core", "emerging-optimizers", "transformer-engine"]
WITHOUT_PROGRESS = 2


def read(run: Path) -> list[dict[str, Any]]:
    return read_json(run / NAME)["attempts"] if (run / NAME).exists() else []


def begin(run: Path, iteration: int, argv: list[str], recipe_id: str) -> int:
    """Record that an attempt at what `recipe_id` names starts. Returns its number, from 1."""
    attempt = {
        **circumstances(PACKAGES),
        "from_iteration": iteration,
        "argv": argv,
    }
    earlier = read(run)
    write_json(run / NAME, {"recipe_id": recipe_id, "attempts": [*earlier, attempt]})
    return len(earlier) + 1


def end(run: Path, number: int, iteration: int, outcome: Outcome, spike: Spike | None = None) -> None:
    record = read_json(run / NAME)
    attempt = record["attempts"][number - 1]
    # A trainer that ends well before its last iteration was asked to: by the recipe's time limit, or by a
    # signal that did not pass through us.
    on_time = outcome.returncode == 0 and iteration > attempt["from_iteration"]
    attempt |= {
        "ended": time.time(),
        "to_iteration": iteration,
        "returncode": outcome.returncode,
        "stopped_on_request": bool(outcome.signalled) or on_time,
        **({"spike": asdict(spike)} if spike else {}),
    }
    write_json(run / NAME, record)


def log_file(run: Path, number: int) -> Path:
    return run / "logs" / f"attempt_{number:03d}.log"


def judge(run: Path, stage: str, number: int, iterations: int, outcome: Outcome, first: int = 0) -> ZgcmError:
    """The error of an attempt that did not finish; writes `stopped.json` when no more are allowed."""
    every = read(run)
    reached = every[number - 1]["to_iteration"]
    where = str(log_file(run, number))
    if (run / stopped.NAME).exists():  # the trainer itself gave a reason, such as a loss that is not finite
        return stopped.read(run / stopped.NAME)
    if outcome.signalled:
        return Stopped(outcome.signalled, how_far(stage, reached, iterations, first))
    if every[number - 1]["stopped_on_request"]:
        return ZgcmError(
            f"Stopped on request; {stage} is saved at {position(reached, iterations, first)}",
            where=where,
            hint="repeat the same command to continue",
        )
    error = ZgcmError(
        f"The trainer of {stage} ended at {position(reached, iterations, first)}; its last lines:\n    "
        + "\n    ".join(outcome.last_lines)
        + "\n",
        where=where,
        found=f"exit code {outcome.returncode}",
        hint="repeat the same command to continue from the last checkpoint",
    )
    if fruitless(every) >= WITHOUT_PROGRESS:
        stopped.write(
            run,
            ZgcmError(
                f"{WITHOUT_PROGRESS} attempts in a row made no new checkpoint. {error.what}", where=where
            ),
        )
    return error


def fruitless(attempts: list[dict[str, Any]]) -> int:
    """How many attempts in a row, counted from the last, failed without a new checkpoint.

    An attempt whose launcher died too (a lost node, kill -9) has no end on record and is not counted.
    """
    count = 0
    for attempt in reversed(attempts):
        if "ended" not in attempt or attempt["stopped_on_request"] or "spike" in attempt:
            continue
        if attempt["to_iteration"] > attempt["from_iteration"]:
            break
        count += 1
    return count
