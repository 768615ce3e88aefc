"""How fast training goes: `speed.jsonl`, TensorBoard and the trackers, and the progress that the user sees.

Model FLOP/s come in two conventions (zgcm.flops): `full` charges full attention on every layer, as the
published figures do; `windowed` honours the sliding windows, which is what is computed. MFU is `windowed`
over the dense bf16 peak of the GPU, for FP8 stages too: their steps mix both precisions, and stages compare.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zgcm.numbers import count, duration, position
from zgcm.train.losslog import SPEED

PROGRESS = "zgcm-progress "  # the launcher shows the user the trainer's lines that begin with it
# Dense bf16 TFLOP/s from NVIDIA's data sheets. The first name that occurs in the device's name counts.
PEAK_TFLOPS = {
    **{"H100 PCIe": 756.0, "H100 NVL": 835.0, "H100": 989.0, "H200": 989.0, "H800": 989.0, "GH200": 989.0},
    **{"A100": 312.0, "A800": 312.0, "GB200": 2500.0, "B200": 2250.0},
}
Sink = Callable[[dict[str, float], int], None]


def peak_tflops(device: str) -> float | None:
    """Of a GPU by its name; None when it is not known."""
    return next((peak for name, peak in PEAK_TFLOPS.items() if name in device), None)


class Speed:
    """Writes one line per `interval` iterations."""

    def __init__(
        self,
        run: Path,
        stage: str,
        total: int,
        interval: int,
        *,
        flops_full: float,
        flops_windowed: float,
        ranks: int,
        first: int = 0,
        peak: float | None = None,
        sinks: tuple[Sink, ...] = (),
    ) -> None:
        """`flops_*`: training FLOPs a token. `ranks`: GPUs, or CPU processes. `first`: the iteration that the
        stage started from. `peak`: TFLOP/s of one GPU."""
        self.run, self.stage, self.total, self.interval = run, stage, total, interval
        self.first = first
        self.flops_full, self.flops_windowed, self.ranks, self.peak = flops_full, flops_windowed, ranks, peak
        self.sinks = sinks
        self.mark: tuple[float, int, int] | None = None  # time, iteration, consumed tokens

    def see(self, record: dict[str, Any]) -> None:
        """`record`: of loss.jsonl. The first one of an attempt only starts the clock: it warms up."""
        iteration, now = record["iteration"], time.time()
        if self.mark is None:
            self.mark = (now, iteration, record["consumed_tokens"])
        elif iteration % self.interval == 0 or iteration == self.total:
            self.write(record, now)
            self.mark = (now, iteration, record["consumed_tokens"])

    def write(self, record: dict[str, Any], now: float) -> None:
        assert self.mark is not None
        since, first, tokens = self.mark
        passed = max(now - since, 1e-9)
        seconds = passed / (record["iteration"] - first)
        rates = self.rates((record["consumed_tokens"] - tokens) / passed)
        line = {
            **{key: record[key] for key in ("iteration", "loss", "grad_norm", "learning_rate")},
            "seconds_per_iteration": seconds,
            **rates,
            "seconds_left": seconds * (self.total - record["iteration"]),
        }
        with (self.run / SPEED).open("a") as stream:
            stream.write(json.dumps({**line, "time": now}) + "\n")
        for sink in self.sinks:
            sink(
                {name: value for name, value in rates.items() if value is not None},
                record["iteration"],
            )
        print(PROGRESS + self.words(line), file=sys.stderr, flush=True)

    def rates(self, tokens_per_second: float) -> dict[str, float | None]:
        each = tokens_per_second / self.ranks
        windowed = each * self.flops_windowed / 1e12
        return {
            "tokens_per_second": tokens_per_second,
            "tokens_per_second_per_gpu": each,
            "tflops_per_gpu_full": each * self.flops_full / 1e12,
            "tflops_per_gpu_windowed": windowed,
            "mfu": windowed / self.peak if self.peak else None,
        }

    def words(self, line: dict[str, Any]) -> str:
        rest = line["seconds_left"]
        parts = [
            f"{self.stage} {position(line['iteration'], self.total, self.first)} loss {line['loss']:.3f}",
            f"grad {line['grad_norm']:.2f} lr {line['learning_rate']:.3g}",
            f"{count(line['tokens_per_second'])} tokens/s ({count(line['tokens_per_second_per_gpu'])} a GPU,",
            f"{line['tflops_per_gpu_full']:.3g} TFLOP/s full, {line['tflops_per_gpu_windowed']:.3g} windowed"
            + (f", MFU {line['mfu']:.1%})" if line["mfu"] is not None else ")"),
            f"{duration(rest)} left" if line["iteration"] < self.total else "finished",
        ]
        return " ".join(parts)
