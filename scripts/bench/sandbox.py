"""What the sandbox costs: a judged test against an empty Python in the same jail, and 64 clients at once.

    .venv/bin/python scripts/bench/sandbox.py --seconds 60

One JSON line. `overhead`: seconds of a judged function test over those of `bwrap ... python -c pass`, in
turns (2 is the limit). `load`: answers while 64 clients ask without pause for `--seconds`, and
what is left afterwards: processes in other user namespaces, control groups, open files of this process.
"""

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from zgcm.rl.sandbox.image import image
from zgcm.rl.sandbox.jail import Jail, Limits, jail, running
from zgcm.rl.sandbox.verdict import Sandbox, sandbox

PROGRAM = "def f(x):\n    return x + 1\n"
TEST = "assert f(1) == 2 and f(2) == 3\n"
BARE_SLOT = 300


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
            result = {"overhead": overhead(made, judge, options.rounds)}
            files = open_files()
            result["load"] = load(judge, options.clients, options.seconds)
            result["load"]["open_files_more"] = open_files() - files
    result["left"] = {name: count - before[name] for name, count in left().items()}
    print(json.dumps({**result, "slots": slots}))


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


def load(judge: Sandbox, clients: int, seconds: float) -> dict[str, object]:
    """Every client asks again as soon as it has its answer."""
    end = time.monotonic() + seconds
    answers: Counter[str] = Counter()
    lock = threading.Lock()

    def client(_: int) -> None:
        while time.monotonic() < end:
            outcome = judge.call(PROGRAM, TEST, 10)
            with lock:
                answers[outcome.reason] += 1

    with ThreadPoolExecutor(clients) as threads:
        list(threads.map(client, range(clients)))
    return {
        "clients": clients,
        "per_second": round(sum(answers.values()) / seconds, 1),
        "answers": dict(answers),
    }


def left() -> dict[str, int]:
    mine = Path("/proc/self/ns/user").readlink()
    processes = 0
    for path in Path("/proc").glob("[0-9]*"):
        try:
            processes += (path / "ns/user").readlink() != mine
        except OSError:
            continue
    groups = len(list(Path("/sys/fs/cgroup").glob(f"**/zgcm-{os.getpid()}-*")))
    return {
        "processes": processes,
        "groups": groups,
        "files": len(list(Path(tempfile.gettempdir()).glob("zgcm-jail-*"))),
    }


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


if __name__ == "__main__":
    main()
