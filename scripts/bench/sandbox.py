"""What the sandbox costs: a judged test against an empty Python in bubblewrap, and 64 clients over HTTP.

    .venv/bin/python scripts/bench/sandbox.py --seconds 60

One JSON line; exit status 1 when a limit is broken. `overhead`: seconds of a judged function test over those
of `bwrap ... python -c pass` with a jail's namespaces and mounts and nothing else of ours, in turns (2 is the
limit). `load`: answers of a service of its own while 64 clients ask without pause for `--seconds` (all
right). `more`: what the service has afterwards that it did not have after a short load before it (no process,
descriptor, directory or control group more), and `left`: what is there when it has ended (nothing).
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
from typing import Any

import psutil

from zgcm.errors import ZgcmError
from zgcm.io import sha256_bytes
from zgcm.rl.formats import write_assets
from zgcm.rl.sandbox.client import Client
from zgcm.rl.sandbox.image import image
from zgcm.rl.sandbox.jail import Jail, Limits, command, jail
from zgcm.rl.sandbox.verdict import Sandbox, sandbox

PROGRAM = "def f(x):\n    return x + 1\n"
TEST = "assert f(1) == 2 and f(2) == 3\n"
BARE_UID = 61300
LIMIT = 2.0
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
    with directory_of_its_own():
        with image() as parts:
            made = jail(parts, Limits())
            with sandbox(made, slots) as judge:
                result: dict[str, Any] = {"overhead": overhead(made, judge, options.rounds)}
        with served(options.clients) as (process, ask):
            load(ask, options.clients, WARM_SECONDS)
            held = holds(process)
            result["load"] = load(ask, options.clients, options.seconds)
            result["more"] = {name: count - held[name] for name, count in holds(process).items()}
        result["left"] = left()
    print(json.dumps({**result, "slots": slots}))
    raise SystemExit(bool(broken(result)))


def broken(result: dict[str, Any]) -> list[str]:
    """Which limits a result breaks."""
    leaks = {
        "more": ("processes", "open_files", "directories", "groups"),
        "left": ("processes", "directories"),
    }
    found = [f"{part}.{name}" for part, names in leaks.items() for name in names if result[part][name] > 0]
    found += ["overhead"] * (result["overhead"]["ratio"] > LIMIT)
    return found + ["load"] * (result["load"]["answers"].keys() != {"right"})


@contextlib.contextmanager
def directory_of_its_own() -> Iterator[None]:
    """For temporary files, so that another sandbox on this machine is not counted."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)  # under root, candidates are other users
        os.environ["TMPDIR"] = tempfile.tempdir = name
        yield
        tempfile.tempdir = None


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
    line = command(made, 0, 0, 0, "")
    line = [*line[: line.index("--seccomp")], "--", "/python/bin/python", "-c", "pass"]
    user = None if os.geteuid() else BARE_UID
    bare, judged = [], []
    for _ in range(rounds):
        started = time.perf_counter()
        subprocess.run(line, check=True, env={}, stdin=subprocess.DEVNULL, user=user, group=user)
        bare.append(time.perf_counter() - started)
        started = time.perf_counter()
        if not judge.call(PROGRAM, TEST, 10).passed:
            raise SystemExit("an honest program failed")
        judged.append(time.perf_counter() - started)
    for child in psutil.Process().children():  # a bare jail's first process, which ended after bubblewrap
        if child.status() == psutil.STATUS_ZOMBIE:
            child.wait()
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
    """Processes: what a jail leaves becomes this process's child, since `jail` makes it a subreaper."""
    return {"processes": len(psutil.Process().children(recursive=True)), "directories": jails()}


if __name__ == "__main__":
    main()
