"""The loss of every iteration, exact: `loss.jsonl`.

It holds deterministic fields only; floats are written as Python's repr, which is exact. Upstream's own log
averages over intervals and over a restart. What differs from run to run is in `speed.jsonl`, see
zgcm.train.speed. An iteration that was left out after a loss spike has no record.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from zgcm.errors import ZgcmError
from zgcm.io import parse_json, write_bytes

LOSS, SPEED = "loss.jsonl", "speed.jsonl"


def read_losses(run: Path) -> list[dict[str, Any]]:
    """All records of a run's loss.jsonl; a line cut short by a kill is left out.

    Raises ZgcmError naming a line that is no record.
    """
    path = run / LOSS
    if not path.exists():
        return []
    lines = [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    for number, line in enumerate(lines, 1):
        if iteration_of(line) is None:
            raise ZgcmError(
                "The record of losses is damaged",
                where=f"{path}:{number}",
                found=line.decode(errors="replace").strip()[:60],
                expected="one JSON object a line",
                hint="restore the file; `zgcm train` says what else can be done",
            )
    return [parse_json(line) for line in lines]


def check(run: Path, beginning: int, iteration: int, left_out: Iterable[tuple[int, int]]) -> None:
    """Whether loss.jsonl holds, in order, every iteration that the checkpoint at `iteration` learned from.

    They are on disk before it is. Raises ZgcmError: `done`, curves and the detector of spikes would differ.
    """
    path = run / LOSS
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    skipped = {step for first, last in left_out for step in range(first, last + 1)}
    steps = [step for step in range(beginning + 1, iteration + 1) if step not in skipped]
    for number, step in enumerate(steps):
        if number < len(lines) and iteration_of(lines[number]) == step:
            continue
        raise ZgcmError(
            "The record of losses is damaged",
            where=f"{path}:{number + 1}",
            found=lines[number].decode(errors="replace").strip()[:60] if number < len(lines) else "no line",
            expected=f"the loss of iteration {step}; the checkpoint to go on from is at {iteration}",
            hint=f"restore the file; or remove the checkpoints from iteration {step} on "
            f"({run / 'checkpoints'}/iter_*) and repeat the command, which trains those again",
        )


def iteration_of(line: bytes) -> int | None:
    """None for a line that is no whole record."""
    try:
        record = parse_json(line)
        return int(record["iteration"]) if line.endswith(b"\n") else None
    except (ValueError, TypeError, KeyError):
        return None


def cut_back(run: Path, iteration: int) -> None:
    """Forget what came after `iteration`: the run resumes there and will write it again."""
    for name in (LOSS, SPEED):
        path = run / name
        if not path.exists():
            continue
        lines = path.read_bytes().splitlines(keepends=True)
        kept = [line for line in lines if (step := iteration_of(line)) is not None and step <= iteration]
        write_bytes(path, b"".join(kept))


class LossLog:
    """Appends one record per iteration that learned."""

    def __init__(self, run: Path, seq_length: int) -> None:
        self.seq_length = seq_length
        self.losses = (run / LOSS).open("a")

    def record(
        self, iteration: int, consumed_samples: int, learning_rate: float, loss: float, grad_norm: float
    ) -> dict[str, Any]:
        """Write a record, of finite numbers only, and return it."""
        record = {
            "iteration": iteration,
            "loss": loss,
            "consumed_samples": consumed_samples,
            "consumed_tokens": consumed_samples * self.seq_length,
            "learning_rate": learning_rate,
            "grad_norm": grad_norm,
        }
        self.losses.write(json.dumps(record, allow_nan=False) + "\n")
        self.losses.flush()
        return record

    def sync(self) -> None:
        """Before a checkpoint is published: its losses must survive a power cut too."""
        self.losses.flush()
        os.fsync(self.losses.fileno())
