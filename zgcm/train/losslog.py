"""The loss of every iteration, exact: `loss.jsonl`.

It holds deterministic fields only; floats are written as Python's repr, which is exact. Upstream's own log
averages over intervals and over a restart. What differs from run to run is in `speed.jsonl`, see
zgcm.train.speed. An iteration that was left out after a loss spike has no record.
"""

import json
import os
from pathlib import Path
from typing import Any

from zgcm.io import write_bytes

LOSS, SPEED = "loss.jsonl", "speed.jsonl"


def read_losses(run: Path) -> list[dict[str, Any]]:
    """All records of a run's loss.jsonl; a line cut short by a kill is left out."""
    path = run / LOSS
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


def cut_back(run: Path, iteration: int) -> None:
    """Forget what came after `iteration`: the run resumes there and will write it again."""
    for name in (LOSS, SPEED):
        path = run / name
        if not path.exists():
            continue
        lines = [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
        kept = [line for line in lines if json.loads(line)["iteration"] <= iteration]
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
