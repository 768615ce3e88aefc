"""Near-duplicates: CPU time against datatrove's MinHash with the same parameters, and what ours finds.

    .venv/bin/python scripts/bench/near_dedup.py [--documents 50000] [--repeats 3] [--work DIR]

Both read the same texts from one JSON Lines file, one process at a time, alternating; the CPU time is user
plus system of the whole process tree. Ours: the verbs `fingerprint`, `minhash` and `dedup` (exact Jaccard
included). datatrove: signatures, buckets and clusters (it does not verify). It is installed into
DIR/datatrove with uv or pip, at the versions below.

The texts are random words of a Zipf-like vocabulary, 150 a text. About half of them come in families of four:
one text and three versions of it with some words replaced. One JSON line: `ratio` is datatrove's CPU time
divided by ours, medians of the repeats; `recall` is of pairs with an exact Jaccard of 0.85 and more that
ended in one cluster; `curve` is the largest deviation of the share of pairs with a common band from
1 - (1 - s^8)^14, over bins of 0.05 in s; `precision` is the part of the removed texts that resemble another
by 0.8 and more. Jaccard is computed here from sets of five words, without any hash.
"""

import argparse
import itertools
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

ROOT = Path(__file__).parents[2]
PEER = ["datatrove==0.10.1", "spacy==3.8.18", "tokenizers==0.23.3", "xxhash==3.5.0", "orjson==3.13.0",
        "ftfy==6.3.1", "regex==2026.11.19", "numpy==2.5.5"]  # fmt: skip
"""xxhash 4 refuses the strings that datatrove 0.10.1 gives it."""
WORDS = 150
BANDS, ROWS, NGRAM, THRESHOLD = 14, 8, 5, 0.8

PEER_CODE = """
import sys
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup.minhash import (
    MinhashConfig, MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupSignature)
from datatrove.pipeline.readers import JsonlReader
work = sys.argv[1]
config = MinhashConfig(n_grams=5, num_buckets=14, hashes_per_bucket=8)
steps = [
    (1, [JsonlReader(work + "/in"), MinhashDedupSignature(work + "/signatures", config)]),
    (14, [MinhashDedupBuckets(work + "/signatures", work + "/buckets", config=config)]),
    (1, [MinhashDedupCluster(work + "/buckets", work + "/removed", config=config)]),
]
for number, (tasks, pipeline) in enumerate(steps):
    LocalPipelineExecutor(pipeline, tasks=tasks, workers=1, logging_dir=f"{work}/logs/{number}").run()
"""
RECIPE = """
sources:
  bench: {kind: files, files: [FILE], stage: pretrain, category: general_text}
mixes:
  bench: {sources: {bench: 1}, near_duplicates: {threshold: 0.8, bands: 14, rows: 8, ngram: 5}}
"""


def make_texts(count: int, seed: int = 0) -> tuple[list[str], list[list[int]]]:
    """Texts, and the families among them as lists of positions."""
    rng = random.Random(seed)
    vocabulary = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 9))) for _ in range(20_000)]
    frequencies = list(itertools.accumulate(1 / (rank + 10) for rank in range(len(vocabulary))))

    def draw(length: int) -> list[str]:
        return rng.choices(vocabulary, cum_weights=frequencies, k=length)

    texts, families = [], []
    for _ in range(count // 8):
        base = draw(WORDS)
        families.append(list(range(len(texts), len(texts) + 4)))
        texts.append(" ".join(base))
        for _ in range(3):
            version = list(base)
            for place in rng.sample(range(WORDS), max(1, round(WORDS * 0.08 * rng.random() ** 2))):
                version[place] = draw(1)[0]
            texts.append(" ".join(version))
    texts += [" ".join(draw(WORDS)) for _ in range(count - len(texts))]
    places = rng.sample(range(count), count)
    shuffled = [""] * count
    for text, place in zip(texts, places, strict=True):
        shuffled[place] = text
    return shuffled, [[places[i] for i in family] for family in families]


# A new process starts with the peak of the one that starts it, so a small one stands between.
MEASURED = """
import os, subprocess, sys
_, status, used = os.wait4(subprocess.Popen(sys.argv[1:]).pid, 0)
print(f"\\n{used.ru_utime + used.ru_stime} {used.ru_maxrss / 1024}")
sys.exit(status != 0)
"""


def run(command: list[str], watched: Path | None = None) -> dict[str, float]:
    """CPU seconds and peak MB of a command; peak MB of the spill directories below `watched`."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
    spilled, done = [0], threading.Event()
    watcher = threading.Thread(target=_watch, args=(watched, spilled, done))
    watcher.start()
    ended = subprocess.run(
        [sys.executable, "-c", MEASURED, *command],
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    done.set()
    watcher.join()
    if ended.returncode:
        sys.exit(f"{' '.join(command[:4])} failed:\n{ended.stdout[-3000:]}")
    cpu, peak = map(float, ended.stdout.splitlines()[-1].split())
    return {"cpu": cpu, "peak_mb": peak, "spill_mb": spilled[0] / 1e6}


def _watch(directory: Path | None, spilled: list[int], done: threading.Event) -> None:
    while directory is not None and not done.wait(0.02):
        size = 0
        for path in directory.glob(".spill-*/*"):
            try:
                size += path.stat().st_blocks * 512
            except FileNotFoundError:
                continue
        spilled[0] = max(spilled[0], size)


def install_peer(work: Path) -> str:
    python = work / "datatrove" / "bin" / "python"
    if not python.exists():
        uv = shutil.which("uv")
        make = [uv, "venv", "-q", "--python", sys.executable] if uv else [sys.executable, "-m", "venv"]
        subprocess.run([*make, str(work / "datatrove")], check=True)
    uv = shutil.which("uv")
    install = [uv, "pip", "install", "-q", "--python"] if uv else []
    command = [*install, str(python)] if uv else [str(python), "-m", "pip", "install", "-q"]
    subprocess.run([*command, *PEER], check=True)
    return str(python)


def ours(work: Path, results: Path) -> dict[str, float]:
    def verb(*words: str) -> list[str]:
        recipes = ["--recipe", "config/tiny.yaml", "--recipe", str(work / "recipe.yaml")]
        return [sys.executable, "-m", "zgcm.cli", *words, *recipes, "--directory", str(work)]

    if not (results / "corpus" / "bench").exists():
        run(verb("clean", "bench", "00000"))
    shutil.rmtree(results / "mixes", ignore_errors=True)
    steps = [verb("fingerprint", "bench", "00000"), verb("minhash", "bench", "00000"), verb("dedup", "bench")]
    found = [run(step, results / "mixes" / "bench") for step in steps]
    return {"cpu": sum(step["cpu"] for step in found), **{f"dedup_{k}": v for k, v in found[-1].items()}}


def theirs(python: str, work: Path) -> dict[str, float]:
    for name in ("signatures", "buckets", "removed", "logs"):
        shutil.rmtree(work / name, ignore_errors=True)
    return run([python, "-c", PEER_CODE, str(work)])


def similarity(first: set[tuple[str, ...]], second: set[tuple[str, ...]]) -> float:
    return len(first & second) / len(first | second)


def shingle_set(text: str) -> set[tuple[str, ...]]:
    words = text.split()
    return {tuple(words[i : i + NGRAM]) for i in range(len(words) - NGRAM + 1)}


def quality(results: Path, texts: list[str], families: list[list[int]]) -> dict[str, Any]:
    corpus = results / "corpus" / "bench"
    position = [int(name) for name in pq.read_table(corpus / "00000.fingerprints")["source_id"].to_pylist()]
    if len(position) != len(texts):
        sys.exit(f"cleaning left {len(position)} of {len(texts)} texts")
    table = pq.read_table(corpus / "00000.14x8x5.minhash")
    bands = np.empty((len(texts), BANDS), np.uint64)
    bands[position] = np.stack([column.to_numpy() for column in table.columns], axis=1)
    survivor = list(range(len(texts)))
    removed = pq.read_table(results / "mixes" / "bench" / "duplicates.parquet").to_pylist()
    for item in removed:
        survivor[position[item["row"]]] = position[item["of_row"]]
    bins: dict[int, list[tuple[float, bool]]] = {}
    alike = joined = 0
    best = [0.0] * len(texts)
    for family in families:
        sets = {member: shingle_set(texts[member]) for member in family}
        for a, b in itertools.combinations(family, 2):
            s = similarity(sets[a], sets[b])
            best[a], best[b] = max(best[a], s), max(best[b], s)
            bins.setdefault(int(s * 20), []).append((s, bool((bands[a] == bands[b]).any())))
            alike += s >= 0.85
            joined += s >= 0.85 and survivor[a] == survivor[b]
    curve = [
        statistics.fmean(hit for _, hit in pairs)
        - statistics.fmean(1 - (1 - s**ROWS) ** BANDS for s, _ in pairs)
        for pairs in bins.values()
        if len(pairs) >= 1000  # standard error 0.016 at most
    ]
    right = sum(best[position[item["row"]]] >= THRESHOLD for item in removed)
    return {
        "recall": round(joined / alike, 4),
        "pairs": alike,
        "curve": round(max(map(abs, curve)), 4) if curve else None,
        "curve_bins": len(curve),
        "precision": round(right / len(removed), 4),
        "removed": len(removed),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "zgcm-bench-near-dedup")
    parser.add_argument("--no-peer", action="store_true", help="measure ours alone")
    options = parser.parse_args()
    work = options.work.resolve()
    results = work / "results"
    for made in (results, work / "in"):
        shutil.rmtree(made, ignore_errors=True)
    (work / "in").mkdir(parents=True)
    texts, families = make_texts(options.documents)
    lines = (json.dumps({"id": str(i), "text": text}) for i, text in enumerate(texts))
    (work / "in" / "texts.jsonl").write_text("\n".join(lines) + "\n")
    (work / "recipe.yaml").write_text(RECIPE.replace("FILE", str(work / "in" / "texts.jsonl")))
    python = "" if options.no_peer else install_peer(work)
    mine: list[dict[str, float]] = []
    peer: list[float] = []
    for repeat in range(options.repeats):
        started = time.monotonic()
        mine.append(ours(work, results))
        peer.append(theirs(python, work)["cpu"] if python else math.nan)
        print(f"repeat {repeat + 1}: {time.monotonic() - started:.0f} s", file=sys.stderr)
    ours_s, peer_s = statistics.median(step["cpu"] for step in mine), statistics.median(peer)
    minhash = (results / "corpus" / "bench" / "00000.14x8x5.minhash").stat().st_size
    line = {
        "bench": "near_dedup",
        "documents": options.documents,
        "ours_cpu_s": round(ours_s, 2),
        "datatrove_cpu_s": round(peer_s, 2) if python else None,
        "ratio": round(peer_s / ours_s, 2) if python else None,
        "repeats": options.repeats,
        "dedup_peak_mb": round(max(step["dedup_peak_mb"] for step in mine)),
        "dedup_spill_mb": round(max(step["dedup_spill_mb"] for step in mine), 1),
        "minhash_mb_per_million": round(minhash / options.documents, 1),
        **quality(results, texts, families),
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
