"""Whether the data plane grows with its data and nothing else: CPU time and memory at N and at 2N shards.

    .venv/bin/python scripts/bench/linear.py --shards 4

Every verb from raw text to the gathered mix, as processes of its own, on arithmetic documents: raw, clean,
fingerprint, minhash and index a shard; dedup, mix and gather for the whole. One JSON line: for the verbs of a
shard and those of the mix, `cpu_ratio` (2.0 is linear) and the peak memory of any process at both sizes. What
a process pays to start is measured with `zgcm --help` and taken off.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
DOCUMENTS_A_SHARD = 5_000
SHARD_VERBS = ("raw", "clean", "fingerprint", "minhash", "index")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shards", type=int, default=4, help="N; the second run has 2N")
    options = parser.parse_args()
    start, _ = measured(["--help"])
    first, second = (run(shards, start) for shards in (options.shards, 2 * options.shards))
    result = {
        "shards": [options.shards, 2 * options.shards],
        "documents": [DOCUMENTS_A_SHARD * options.shards, DOCUMENTS_A_SHARD * 2 * options.shards],
        **{
            part: {
                "cpu_seconds": [round(first[part][0], 2), round(second[part][0], 2)],
                "cpu_ratio": round(second[part][0] / first[part][0], 3),
                "peak_mb": [round(first[part][1]), round(second[part][1])],
            }
            for part in ("shard_verbs", "mix_verbs")
        },
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }
    print(json.dumps(result))


def run(shards: int, start: float) -> dict[str, tuple[float, float]]:
    """CPU seconds and peak MB of the verbs of a shard, and of those of the mix."""
    with tempfile.TemporaryDirectory() as directory:
        overlay = Path(directory) / "linear.yaml"
        overlay.write_text(yaml.safe_dump(recipe(shards)))
        places = [
            "-r",
            str(ROOT / "config/tiny.yaml"),
            "-r",
            str(overlay),
            "--directory",
            directory,
        ]

        def total(jobs: list[list[str]]) -> tuple[float, float]:
            figures = [measured([*job, *places]) for job in jobs]
            return sum(cpu - start for cpu, _ in figures), max(peak for _, peak in figures)

        names = [f"{number:05d}" for number in range(shards)]
        for verb in ("raw", "clean"):
            measured([verb, "bench_tokenizer", "00000", *places])
        measured(["tokenizer", *places])
        each = total([[verb, "bench", name] for name in names for verb in SHARD_VERBS])
        gather = [["gather", "bench", name] for name in names]
        return {"shard_verbs": each, "mix_verbs": total([["dedup", "bench"], ["mix", "bench"], *gather])}


def recipe(shards: int) -> dict[str, object]:
    source = {"kind": "demo", "content": "arithmetic", "stage": "midtrain", "category": "math"}
    return {
        "tokenizer": {"sources": ["bench_tokenizer"], "vocab_size": 512},
        "sources": {
            "bench": {**source, "documents": DOCUMENTS_A_SHARD * shards, "shards": shards},
            "bench_tokenizer": {**source, "content": "prose", "category": "general_text", "documents": 60},
        },
        "mixes": {"bench": {"sources": {"bench": 1.0}, "near_duplicates": {}, "shards": shards}},
    }


def measured(arguments: list[str]) -> tuple[float, float]:
    """CPU seconds and peak resident MB of one verb. Raises when it fails."""
    process = subprocess.Popen([sys.executable, "-m", "zgcm.cli", *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"zgcm {' '.join(arguments)} failed")
    return usage.ru_utime + usage.ru_stime, peak_mb(usage)


def peak_mb(usage: resource.struct_rusage) -> float:
    return usage.ru_maxrss / 1024  # Linux counts in KiB


if __name__ == "__main__":
    main()
