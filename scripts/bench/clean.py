"""Cleaning against the least that any cleaner does, in one run: CPU seconds, medians, one JSON line.

    .venv/bin/python scripts/bench/clean.py --megabytes 40

The floor reads each line, `orjson.loads`, SHA-256 of its text, `orjson.dumps`, writes; plain JSON Lines in
and out. Ours is what `zgcm clean` does on the same shard, plain in and out too: category general_text, every
common step, the exact fingerprint (`text_sha256`), the scan for credentials and personal data, digests of
records and files. `ratio` is ours over the floor (limit: 12); `ratio_zstd` the same with compressed output,
as the workflow writes it, over the same floor. What a process pays once (imports, compiled patterns) is
`setup_cpu_seconds`.

The shard is made on the spot: documentation of Python's library, one in five documents Chinese, one in fifty
with a mail address or a phone number. `--shard FILE` measures yours (JSON Lines with `id` and `text`).
"""

import argparse
import hashlib
import importlib.metadata
import json
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson

from zgcm.config.corpus import DemoSource
from zgcm.config.load import read_mapping, validate_recipe
from zgcm.config.recipe import Recipe
from zgcm.corpus.clean import clean_shard
from zgcm.corpus.demo import build_shard
from zgcm.io import read_json
from zgcm.layout import Layout
from zgcm.records import Record, write_records

ROOT = Path(__file__).parents[2]
LIMIT = 12
PACKAGES = ("orjson", "hyperscan", "detect-secrets", "phonenumbers", "python-stdnum", "zstandard")
COMMON = "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年动同工也能"
"""Frequent characters: what matters here is that they take three bytes each."""
PLANTED = ("Write to li.lei@mail.org for more.", "请拨打 13812345678 联系我们。")


class PlainLayout(Layout):
    def cleaned(self, source: str, shard: str) -> Path:
        return self.root / "corpus" / source / f"{shard}.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shard", type=Path, help="your own JSON Lines, with `id` and `text`")
    parser.add_argument("--megabytes", type=float, default=40, help="size of the shard made otherwise")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each, by turns")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        shard = options.shard or make_shard(Path(directory) / "shard.jsonl", options.megabytes)
        print(json.dumps(measure(shard, Path(directory), options.repeats), sort_keys=True))


def measure(shard: Path, directory: Path, repeats: int) -> dict[str, object]:
    recipe = recipe_of(shard)
    plain, packed = PlainLayout(directory / "plain"), Layout(directory / "zstd")
    setup = cpu_seconds(load_scan)
    runs: dict[str, Callable[[], object]] = {
        "floor": lambda: floor(shard, directory / "floor.jsonl"),
        "clean": lambda: clean_shard(recipe, plain, "bench", "00000"),
        "clean_zstd": lambda: clean_shard(recipe, packed, "bench", "00000"),
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            times[name].append(cpu_seconds(run))
    medians = {name: statistics.median(values) for name, values in times.items()}
    summary = read_json(plain.cleaning_summary("bench", "00000"))
    return {
        "bench": "clean",
        "ratio": round(medians["clean"] / medians["floor"], 2),
        "ratio_zstd": round(medians["clean_zstd"] / medians["floor"], 2),
        "limit": LIMIT,
        "cpu_seconds": {name: round(value, 3) for name, value in medians.items()},
        "setup_cpu_seconds": round(setup, 3),
        "repeats": repeats,
        "megabytes": round(shard.stat().st_size / 1e6, 1),
        "records": {name: summary[name] for name in ("in", "kept", "review", "dropped", "found")},
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
        "python": platform.python_version(),
        "machine": platform.machine(),
    }


def floor(shard: Path, target: Path) -> None:
    with shard.open("rb") as lines, target.open("wb") as out:
        for line in lines:
            record = orjson.loads(line)
            record["text_sha256"] = hashlib.sha256(record["text"].encode()).hexdigest()
            out.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))


def load_scan() -> None:
    """What a process pays once: imports and the compilation of the patterns."""
    from zgcm.corpus.scan.matcher import scan

    scan("+44 20 7946 0958, li.lei@mail.org")


def cpu_seconds(act: Callable[[], object]) -> float:
    before = time.process_time()
    act()
    return time.process_time() - before


def recipe_of(shard: Path) -> Recipe:
    """The tiny recipe with the shard as one more source."""
    source = {"kind": "files", "files": [str(shard)], "stage": "pretrain", "category": "general_text"}
    tiny = read_mapping(ROOT / "config" / "tiny.yaml")
    return validate_recipe({**tiny, "sources": {**tiny["sources"], "bench": source}}, "bench")


def make_shard(path: Path, megabytes: float) -> Path:
    write_records(path, documents(megabytes * 1e6))
    return path


def documents(size: float) -> Iterator[Record]:
    random_ = random.Random("bench")
    prose = DemoSource(kind="demo", content="prose", stage="pretrain", category="general_text", documents=600)
    texts = [record["text"] for record in build_shard(prose, "bench", 0)]
    number = written = 0
    while written < size:
        text = chinese(random_) if number % 5 == 4 else texts[number % len(texts)]
        if number % 50 == 0:
            text += "\n\n" + PLANTED[number // 50 % 2]
        yield {"id": str(number), "text": text, "source": "bench", "license": "PSF-2.0"}
        number += 1
        written += len(text.encode())


def chinese(random_: random.Random) -> str:
    sentences = ("".join(random_.choices(COMMON, k=random_.randint(8, 40))) for _ in range(50))
    return "".join(
        f"{sentence}。\n" if index % 5 == 4 else f"{sentence}，" for index, sentence in enumerate(sentences)
    )


if __name__ == "__main__":
    main()
