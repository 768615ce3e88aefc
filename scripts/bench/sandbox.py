"""What the sandbox costs: a judged test against an empty Python in the same jail, and 64 clients over HTTP.

    .venv/bin/python scripts/bench/sandbox.py --seconds 60

One JSON line. `overhead`: seconds of a judged function test over those of `bwrap ... python -c pass`, in
turns (2 is the limit). `load`: answers of a service of its own while 64 clients ask without pause for
`--seconds`. `more`: what the service has afterwards that it did not have after a short load before it, and
`left`: what is there when it has ended.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from zgcm.errors import ZgcmError
from zgcm.io import sha256_bytes
from zgcm.rl.formats import write_assets
from zgcm.rl.sandbox.client import Client
from zgcm.rl.sandbox.image import image
from zgcm.rl.sandbox.jail import Jail, Limits, jail, running
from zgcm.rl.sandbox.verdict import Sandbox, sandbox

PROGRAM = "def f(x):\n    return x + 1\n"
TEST = "assert f(1) == 2 and f(2) == 3\n"
BARE_SLOT = 300
TOKEN = "b" * 32
WARM_SECONDS = 5.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=64)
    options = parser.parse_args()
    slots = len(os.sched_getaffinity(0))
    before = left()
    with image() as parts:
        made = jail(parts, Limits())
        with sandbox(made, slots) as judge:
            result: dict[str, object] = {"overhead": overhead(made, judge, options.rounds)}
    with served(options.clients) as (process, ask):
        load(ask, options.clients, WARM_SECONDS)
        held = holds(process)
        result["load"] = load(ask, options.clients, options.seconds)
        result["more"] = {name: count - held[name] for name, count in holds(process).items()}
    result["left"] = {name: count - before[name] for name, count in left().items()}
    print(json.dumps({**result, "slots": slots}))


@contextlib.contextmanager
def served(clients: int) -> Iterator[tuple[psutil.Process, Callable[[], str]]]:
    """A service with one asset: its process, and a function that asks it once and returns the outcome."""
    packed = json.dumps([TEST]).encode()
    body = {
        "program": PROGRAM,
        "asset_hash": sha256_bytes(packed),
        "task_type": "code",
        "selection_seed": "bench",
        "max_execution_time": 10,
    }
    with tempfile.TemporaryDirectory() as root:
        write_assets(Path(root), {sha256_bytes(packed): packed})
        process = subprocess.Popen(
            [sys.executable, "-m", "zgcm.cli", "sandbox", "serve", "--assets", root, "--port", "0"],
            env={**os.environ, "ZGCM_CODE_SANDBOX_TOKEN": TOKEN},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            client = Client(process.stdout.readline().strip(), TOKEN, pauses=())

            def ask() -> str:
                try:
                    return "right" if client.verify(body)["score"] == 1 else "wrong"
                except ZgcmError as error:
                    return f"{error.what}: {error.found}"

            yield psutil.Process(process.pid), ask
        finally:
            process.terminate()
            process.wait(60)


def overhead(made: Jail, judge: Sandbox, rounds: int) -> dict[str, float]:
    """Medians in seconds, and their ratio."""
    bare, judged = [], []
    for _ in range(rounds):
        started = time.perf_counter()
        with running(made, BARE_SLOT, "pass", output=True) as run:
            run.process.wait()
        bare.append(time.perf_counter() - started)
        started = time.perf_counter()
        if not judge.call(PROGRAM, TEST, 10).passed:
            raise SystemExit("an honest program failed")
        judged.append(time.perf_counter() - started)
    one, other = statistics.median(bare), statistics.median(judged)
    return {"bare": round(one, 4), "judged": round(other, 4), "ratio": round(other / one, 2)}


def load(ask: Callable[[], str], clients: int, seconds: float) -> dict[str, object]:
    """Every client asks again as soon as it has its answer."""
    begun = time.monotonic()
    answers: Counter[str] = Counter()
    waited: list[float] = []
    lock = threading.Lock()

    def client(_: int) -> None:
        while time.monotonic() < begun + seconds:
            asked = time.monotonic()
            outcome = ask()
            with lock:
                answers[outcome] += 1
                waited.append(time.monotonic() - asked)

    with ThreadPoolExecutor(clients) as threads:
        list(threads.map(client, range(clients)))
    return {
        "clients": clients,
        "seconds": round(time.monotonic() - begun, 1),
        "per_second": round(sum(answers.values()) / (time.monotonic() - begun), 1),
        "answers": dict(answers),
        "longest_seconds": round(max(waited), 1),
    }


def holds(process: psutil.Process) -> dict[str, int]:
    """What the service holds when nobody asks."""
    time.sleep(2)  # the last jails are taken down after their answers
    return {
        "processes": len(process.children(recursive=True)),
        "open_files": process.num_fds(),
        "threads": process.num_threads(),
        "megabytes": process.memory_info().rss >> 20,
        "directories": jails(),
        "groups": len(list(Path("/sys/fs/cgroup").glob(f"**/zgcm-{process.pid}-*"))),
    }


def jails() -> int:
    return len(list(Path(tempfile.gettempdir()).glob("zgcm-jail-*")))


def left() -> dict[str, int]:
    mine = Path("/proc/self/ns/user").readlink()
    processes = 0
    for path in Path("/proc").glob("[0-9]*"):
        try:
            processes += (path / "ns/user").readlink() != mine
        except OSError:
            continue
    return {"processes": processes, "directories": jails()}


if __name__ == "__main__":
    main()
