"""The loss of every iteration, exact, and how fast training goes.

`loss.jsonl` holds deterministic fields only; floats are written as Python's repr, which is exact. Upstream's
own log averages over intervals and over a restart. `speed.jsonl` holds what differs from run to run.
"""

import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

from zgcm.errors import ZgcmError
from zgcm.io import write_bytes

LOSS, SPEED = "loss.jsonl", "speed.jsonl"
PROGRESS = "zgcm-progress "  # the launcher shows the user the trainer's lines that begin with it


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
    """Appends one record per iteration; prints progress every `log_interval` iterations."""

    def __init__(self, run: Path, stage: str, total: int, log_interval: int, seq_length: int) -> None:
        self.run, self.stage, self.total = run, stage, total
        self.log_interval, self.seq_length = log_interval, seq_length
        self.losses = (run / LOSS).open("a")
        self.mark: tuple[float, int, int] | None = None  # time, iteration, consumed samples

    def record(
        self, iteration: int, loss: float, consumed_samples: int, learning_rate: float, grad_norm: float
    ) -> None:
        """Raises ZgcmError when the loss or the gradient is not finite."""
        check_finite(self.stage, iteration, loss=loss, grad_norm=grad_norm)
        record = {
            "iteration": iteration,
            "loss": loss,
            "consumed_samples": consumed_samples,
            "consumed_tokens": consumed_samples * self.seq_length,
            "learning_rate": learning_rate,
            "grad_norm": grad_norm,
        }
        self.losses.write(json.dumps(record) + "\n")
        self.losses.flush()
        if self.mark is None:
            self.mark = (time.time(), iteration, consumed_samples)  # the first iteration warms up
        if iteration % self.log_interval == 0 or iteration == self.total:
            self.progress(iteration, loss, consumed_samples)

    def progress(self, iteration: int, loss: float, consumed_samples: int) -> None:
        assert self.mark is not None
        now = time.time()
        since, first, samples = self.mark
        if iteration == first:
            return
        seconds = (now - since) / (iteration - first)
        tokens_per_second = (consumed_samples - samples) * self.seq_length / max(now - since, 1e-9)
        speed = {
            "iteration": iteration,
            "seconds_per_iteration": seconds,
            "tokens_per_second": tokens_per_second,
        }
        with (self.run / SPEED).open("a") as stream:
            stream.write(json.dumps({**speed, "time": now}) + "\n")
        left = (
            f"{duration(seconds * (self.total - iteration))} left" if iteration < self.total else "finished"
        )
        print(
            f"{PROGRESS}{self.stage} {iteration}/{self.total} loss {loss:.3f} "
            f"{count(tokens_per_second)} tokens/s {left}",
            file=sys.stderr,
            flush=True,
        )
        self.mark = (now, iteration, consumed_samples)

    def sync(self) -> None:
        """Before a checkpoint is published: its losses must survive a power cut too."""
        self.losses.flush()
        os.fsync(self.losses.fileno())


def check_finite(stage: str, iteration: int, **values: float) -> None:
    for name, value in values.items():
        if not math.isfinite(value):
            raise ZgcmError(
                f"Training stopped: {name} is not finite",
                where=f"{stage}, iteration {iteration}",
                found=repr(value),
                hint="lower the learning rate, or look at the data; the checkpoints before it are whole",
            )


def duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def count(value: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.1f}{unit}"
    return f"{value:.0f}"
