"""Memory and disk of `zgcm dedup` with near-duplicates, over the number of documents.

    .venv/bin/python scripts/bench/near_dedup_memory.py [--documents 250000 500000 1000000] [--mem-mb 400]

The inputs are made up, since making real ones would take most of the time: random band hashes, and one
document in five (`--every`) a copy of the one before it in five bands and all words but one. One JSON line a
size: `peak_mb` is the resident memory of the process, `spill_mb` the largest size of its spill directory,
`bands_mb` and `fingerprints_mb` what its inputs take on disk. `--mem-mb` is the recipe's
`step_resources.mix.mem_mb`.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parent))
from near_dedup import BANDS, run

from zgcm.corpus.fingerprint import SCHEMA
from zgcm.corpus.minhash import band_names
from zgcm.io import write_json
from zgcm.layout import Layout
from zgcm.records import open_records

RECIPE = """
sources:
  bench: {kind: demo, content: prose, documents: 1, stage: pretrain, category: general_text}
mixes:
  bench: {sources: {bench: 1}, near_duplicates: {}}
step_resources: {mix: {mem_mb: MEM}}
"""
SHARD = "00000"
GROUP = 1 << 16
"""Rows of a parquet group, as the verbs write them: a reader's memory grows with it."""


def make_inputs(layout: Layout, count: int, every: int) -> None:
    """Cleaned shard, fingerprints and bands; the last of `every` documents resembles the one before it. The
    text of the others, which nothing reads, is left out."""
    rng = np.random.default_rng(count)
    bands = rng.integers(0, 2**64, (count, BANDS), np.uint64)
    copies = np.arange(every - 1, count, every)
    bands[copies, :5] = bands[copies - 1, :5]
    cleaned = layout.cleaned("bench", SHARD)
    with open_records(cleaned) as write:
        for row in range(count):
            pair, place = divmod(row, every)
            text = " ".join(f"w{pair * 40 + word}" for word in range(40)) if place >= every - 2 else ""
            text += " again" if place == every - 1 else ""
            write({"data": {"text": text}, "text_fields": ["text"]})
    columns = [
        pa.array(range(count), pa.int32()),
        pa.array([row.tobytes() for row in rng.integers(0, 2**64, (count, 2), np.uint64)], pa.binary(16)),
        pa.nulls(count, pa.float32()),
        pa.array(rng.integers(100, 5000, count), pa.int32()),
        pa.array([f"bench-{row:012d}" for row in range(count)]),
        pa.array(["keep"] * count),
        pa.nulls(count, pa.uint64()),
    ]
    pq.write_table(pa.table(columns, schema=SCHEMA), layout.fingerprints("bench", SHARD), GROUP)
    pq.write_table(
        pa.table([pa.array(bands[:, band]) for band in range(BANDS)], band_names(BANDS)),
        layout.minhash("bench", SHARD, "14x8x5"),
        GROUP,
        compression="none",
        use_dictionary=False,
    )
    write_json(layout.cleaning_summary("bench", SHARD), {"kept": count, "review": 0})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, nargs="+", default=[250_000, 500_000, 1_000_000])
    parser.add_argument("--mem-mb", type=int, default=400)
    parser.add_argument("--every", type=int, default=5)
    options = parser.parse_args()
    for count in options.documents:
        with tempfile.TemporaryDirectory() as directory:
            work = Path(directory)
            layout = Layout(work / "results")
            make_inputs(layout, count, options.every)
            (work / "recipe.yaml").write_text(RECIPE.replace("MEM", str(options.mem_mb)))
            recipes = ["--recipe", "config/tiny.yaml", "--recipe", str(work / "recipe.yaml")]
            command = [sys.executable, "-m", "zgcm.cli", "dedup", "bench", *recipes, "--directory"]
            used = run([*command, directory], layout.mix("bench"))
            line = {
                "bench": "near_dedup_memory",
                "documents": count,
                "mem_mb": options.mem_mb,
                "cpu_s": round(used["cpu"], 1),
                "peak_mb": round(used["peak_mb"]),
                "spill_mb": round(used["spill_mb"]),
                "bands_mb": round(layout.minhash("bench", SHARD, "14x8x5").stat().st_size / 1e6),
                "fingerprints_mb": round(layout.fingerprints("bench", SHARD).stat().st_size / 1e6),
                "removed": pq.read_metadata(layout.duplicates("bench")).num_rows,
            }
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
