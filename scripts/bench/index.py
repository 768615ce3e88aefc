"""Index: `zgcm index` on a plain file against Megatron-LM's two tools, whole processes on two cores.

    .venv/bin/python scripts/bench/index.py --megatron ../Megatron-LM [--sizes 80 1000] [--repeats 3]

--megatron is a checkout of NVIDIA/Megatron-LM (measured at d98e8a6). Its tools run in an environment of their
own, made in DIR/peers, or in the interpreter that --peer-python names. The tool without gigatoken needs
minutes at 1 GB: --slow-up-to leaves it out above that many megabytes.

The text is running text of the standard library's modules with its line ends: documents of log-normal length
(median 200 words, mean 3 KB) that begin anywhere, so words come as often as they do in real text. One word in
a hundred is replaced by a number or by letters that hardly any other document has; else the library's few
words would all be known to gigatoken after some megabytes. The tokenizer (32,768 tokens) is trained on the
beginning.

Ours, `preprocess_data_fast.py` and `preprocess_data.py --workers 2` alternate; both cores are free for each.
One JSON line a size: medians of wall and CPU seconds (`*_cpu`, with children), `rss` is the peak in GB, and
ratios are the peer's time by ours. On a busy machine trust those of CPU time. `identical` says that .bin and
.idx of all agree byte for byte. Without --megatron ours is measured alone.
"""

import argparse
import json
import math
import os
import random
import re
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any

import orjson

from zgcm.config.model import TrainedTokenizer
from zgcm.io import sha256_file
from zgcm.records import read_records
from zgcm.rundir.manifest import write_manifest
from zgcm.tokens.tokenizer import train_tokenizer

ROOT = Path(__file__).parents[2]
PEER_PACKAGES = ["torch==2.13.0", "transformers==5.19.0", "tokenizers", "gigatoken", "numpy", "packaging",
                 "pyyaml", "einops", "tqdm"]  # fmt: skip
VOCABULARY = 32_768
TRAINING_DOCUMENTS = 4_000
MEDIAN_WORDS, MAX_WORDS = 200, 20_000
RARE = 0.01
"""Of words. Heaps' law (Manning et al. 2008, section 5.1: 44 n^0.49 different words) says that 0.4 % of the
100 million words of 1 GB are new; half of the rare ones here are numbers, of which many repeat."""
CORES = 2


def main() -> None:
    options = arguments()
    work = Path(options.work or tempfile.mkdtemp(prefix="bench-index-"))
    work.mkdir(parents=True, exist_ok=True)
    peer_python = options.peer_python
    if options.megatron and peer_python is None:
        peer_python = make_environment(work / "peers")
    tokenizer = work / "tokenizer"
    for size in options.sizes:
        data = work / f"{size}.jsonl"
        if not data.exists():
            write_text(data, size * 1_000_000)
        if not tokenizer.exists():
            train(data, tokenizer)
        print(json.dumps(measure(data, size, tokenizer, work, options, peer_python)), flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megatron", type=Path, help="a checkout of NVIDIA/Megatron-LM")
    parser.add_argument("--peer-python", help="an interpreter that has the tools' packages")
    parser.add_argument("--sizes", type=int, nargs="+", default=[80, 1000], help="megabytes")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--slow-up-to", type=int, default=100_000, help="megabytes")
    parser.add_argument("--work", help="keeps the text, the tokenizer and the peers' environment")
    return parser.parse_args()


def measure(
    data: Path, size: int, tokenizer: Path, work: Path, options: argparse.Namespace, peer_python: str | None
) -> dict[str, Any]:
    zgcm = [str(ROOT / ".venv/bin/python"), "-m", "zgcm.cli", "index", str(data)]
    commands = {"ours": [*zgcm, "--tokenizer", str(tokenizer), "--output", str(work / "ours")]}
    if options.megatron:
        tools = options.megatron.resolve() / "tools"
        common = ["--input", str(data), "--tokenizer-type", "HuggingFaceTokenizer", "--append-eod",
                  "--tokenizer-model", str(tokenizer)]  # fmt: skip
        fast = [str(tools / "preprocess_data_fast.py"), "--use-gigatoken"]
        commands["fast"] = [str(peer_python), *fast, *common, "--output-prefix", str(work / "fast")]
        if size <= options.slow_up_to:
            slow = [str(tools / "preprocess_data.py"), "--workers", "2", "--log-interval", "1000000"]
            commands["slow"] = [str(peer_python), *slow, *common, "--output-prefix", str(work / "slow")]
    runs: dict[str, list[tuple[float, float, float]]] = {name: [] for name in commands}
    digests: dict[str, tuple[str, str]] = {}
    for _ in range(options.repeats):
        for name, command in commands.items():
            prefix = work / (name if name == "ours" else f"{name}_text_document")
            for ending in (".bin", ".idx", ".index.json"):
                prefix.with_name(prefix.name + ending).unlink(missing_ok=True)
            runs[name].append(run(command, options.megatron if name != "ours" else None))
            found = (sha256_file(prefix.with_name(prefix.name + ending)) for ending in (".bin", ".idx"))
            digests[name] = (next(found), next(found))
    line: dict[str, Any] = {"bench": "index", "megabytes": size, "repeats": options.repeats}
    for name, measured in runs.items():
        wall, cpu, rss = (statistics.median(column) for column in zip(*measured, strict=True))
        line |= {name: round(wall, 2), f"{name}_cpu": round(cpu, 2), f"{name}_rss": round(rss, 3)}
        if name != "ours":
            line |= {f"ratio_{name}": round(wall / line["ours"], 1),
                     f"ratio_{name}_cpu": round(cpu / line["ours_cpu"], 1)}  # fmt: skip
    return {**line, "identical": len(set(digests.values())) == 1, "load": os.getloadavg()[0]}


def run(command: list[str], checkout: Path | None) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds with children, peak resident GB of a whole process on two cores."""
    os.sync()  # ours waits until its files are on disk: not for what the one before has left to be written
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "2"}
    if checkout is not None:
        environment["PYTHONPATH"] = str(checkout.resolve())
    began = time.perf_counter()
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        preexec_fn=lambda: os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES]),
    )  # fmt: skip
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{said.decode()[-2000:]}")
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e6


def make_environment(directory: Path) -> str:
    """The peers' packages, installed once."""
    python = directory / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PEER_PACKAGES], check=True)
    return str(python)


def write_text(path: Path, size: int) -> None:
    """JSON Lines of at least `size` bytes, the same in every run with the same Python."""
    rng = random.Random(0)
    words = library_words()
    written = number = 0
    with path.open("wb") as out:
        while written < size:
            count = min(round(rng.lognormvariate(math.log(MEDIAN_WORDS), 1)) + 1, MAX_WORDS)
            start = rng.randrange(len(words) - count)
            text = words[start : start + count]
            for _ in range(round(count * RARE + rng.random() - 0.5)):
                text[rng.randrange(count)] = rare_word(rng)
            written += out.write(orjson.dumps({"id": str(number), "text": "".join(text)}) + b"\n")
            number += 1


def library_words() -> list[str]:
    """The words of the standard library's modules in their order, each with the white space before it."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return [word for file in files for word in re.findall(r"\s*\S+", file.read_text("utf-8"))]


def rare_word(rng: random.Random) -> str:
    """A number of up to six digits, or letters that mostly no other document has."""
    if rng.random() < 0.5:
        return f" {rng.randrange(10**6)}"
    return " " + "".join(rng.choices("abcdeghilmnoprstu", k=rng.randint(4, 10)))


def train(data: Path, directory: Path) -> None:
    section = TrainedTokenizer(kind="train", vocab_size=VOCABULARY, sources=["text"])
    texts = (record["text"] for _, record in zip(range(TRAINING_DOCUMENTS), read_records(data), strict=False))
    write_manifest(directory, **train_tokenizer(section, texts, directory))


if __name__ == "__main__":
    main()
