"""Hostile programs side by side against one service: no verdict, no harm to the host, nothing left."""

import contextlib
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from a_service import Server, asset
from hostile_programs import HOSTILE

from zgcm.errors import ZgcmError
from zgcm.rl.sandbox import cgroup
from zgcm.rl.sandbox.jail import OVERHEAD_PROCESSES, TABLES, Limits

pytestmark = pytest.mark.slow

SLOTS = 4
MEMORY_MB = 256
SECONDS = 1.0
"""Of a hostile program; an honest one has ten."""
SETTLE_SECONDS = 10.0
TEST = "assert square(3) == 9 and square(4) == 16"
HONEST = "def square(x): return x * x"
FLOODS = {
    "files": (
        "def flood():\n    n = 0\n    with open('/tmp/x', 'wb', buffering=0) as f:\n        try:\n"
        "            while True: n += f.write(bytes(1 << 16))\n        except OSError: return n",
        f"assert {Limits().scratch_bytes >> 1} < flood() <= {Limits().scratch_bytes}",
    ),
    "memory": (
        "def flood():\n    x = []\n    try:\n        while True: x.append(bytearray(1 << 20))\n"
        "    except MemoryError:\n        n = len(x)\n        x.clear()\n        return n",
        f"assert {MEMORY_MB >> 1} < flood() <= {MEMORY_MB}",
    ),
    "processes": (
        "import os, time\ndef flood():\n    n = 0\n    try:\n        while True:\n"
        "            if os.fork() == 0: time.sleep(99)\n            n += 1\n    except OSError: return n",
        f"assert 1 < flood() <= {Limits().processes}",
    ),
    "descriptors": (
        "def flood():\n    x = []\n    try:\n        while True: x.append(open('/tmp/x', 'w'))\n"
        "    except OSError: return len(x)",
        f"assert 1 < flood() <= {Limits().open_files}",
    ),
}
"""Programs that say how much they got, and what the service's limits say of it."""


@dataclass
class Suite:
    """What the programs did, and the host before and after."""

    directory: Path
    server: Server
    victim: subprocess.Popen[bytes]
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    next: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Of an honest program right after the hostile one."""
    seconds: dict[str, float] = field(default_factory=dict)
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)
    largest: int = 0
    """Most bytes of memory that one process of the jails had."""
    whole: int = 0
    """... and that all of them had at one time, pages they share counted each time."""

    @property
    def canary(self) -> Path:
        return self.directory / "host" / "canary"

    def host(self) -> dict[str, Any]:
        """What must not change: the service's processes (a jail's that escapes has it as parent: it is their
        subreaper), descriptors, control groups, files."""
        process = psutil.Process(self.server.process.pid)
        stat = self.canary.stat() if self.canary.exists() else None
        return {
            "processes": sorted(child.pid for child in process.children(recursive=True)),
            "descriptors": process.num_fds(),
            "groups": [len(list(place.glob(f"zgcm-{process.pid}-*"))) for place in cgroup.hierarchies()],
            "files": sorted(str(path) for path in self.directory.rglob("*")),
            "canary": stat and (self.canary.read_text(), stat.st_mode, stat.st_mtime_ns, stat.st_uid),
            "victim": self.victim.poll(),
        }

    def attack(self, name: str) -> None:
        texts = {"CANARY": str(self.canary), "MARK": mark(self), "VICTIM": str(self.victim.pid)}
        program = HOSTILE[name]
        for placeholder, text in texts.items():
            program = program.replace(placeholder, text)
        begun = time.monotonic()
        self.answers[name] = self.ask(program, TEST, SECONDS)
        self.seconds[name] = time.monotonic() - begun
        self.next[name] = self.ask(HONEST, TEST, 10)

    def ask(self, program: str, test: str, seconds: float) -> dict[str, Any]:
        body = {"asset_hash": asset([test])[0], "task_type": "code", "selection_seed": "s"}
        try:
            return self.server.client.verify({**body, "program": program, "max_execution_time": seconds})
        except ZgcmError as error:
            return {"results": str(error)}

    def watch(self, done: threading.Event) -> None:
        process = psutil.Process(self.server.process.pid)
        while not done.wait(0.05):
            sizes = [0]
            for child in process.children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    sizes.append(child.memory_info().rss)
            self.largest, self.whole = max(self.largest, *sizes), max(self.whole, sum(sizes))


def mark(suite: Suite) -> str:
    return f"zgcm-hostile-{suite.victim.pid}-{suite.directory.name}"


@pytest.fixture(scope="module")
def suite() -> Iterator[Suite]:
    with contextlib.ExitStack() as stack:
        # pytest's own directory is not for other users to enter
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        directory.chmod(0o755)
        for name in ("host", "temporary", "assets"):
            (directory / name).mkdir()
        (directory / "host").chmod(0o777)  # the jail keeps it out, not its mode
        victim = subprocess.Popen(["sleep", "600"], start_new_session=True)
        stack.callback(victim.wait)
        stack.callback(victim.kill)
        options = ("--slots", str(SLOTS), "--memory-mb", str(MEMORY_MB))
        tests = [[TEST], *([test] for _, test in FLOODS.values())]
        variables = {"TMPDIR": str(directory / "temporary")}
        server = Server(directory / "assets", tests, *options, variables=variables)
        stack.callback(server.stop)
        made = Suite(directory, server, victim)
        made.canary.write_text("sings")
        made.canary.chmod(0o666)
        made.ask(HONEST, TEST, 10)  # makes what is made once
        made.before = settled(made, None)
        done = threading.Event()
        watching = threading.Thread(target=made.watch, args=(done,))
        watching.start()
        try:
            with ThreadPoolExecutor(SLOTS) as threads:
                list(threads.map(made.attack, HOSTILE))
        finally:
            done.set()
            watching.join()
        made.after = settled(made, made.before)
        yield made


def settled(suite: Suite, wanted: dict[str, Any] | None) -> dict[str, Any]:
    """The host's state when it is the wanted one, or does not change any more; the latest after a while:
    jails and connections are taken down after their answers."""
    end = time.monotonic() + SETTLE_SECONDS
    last: dict[str, Any] = {}
    while time.monotonic() < end:
        found = suite.host()
        if found == wanted or (wanted is None and found == last):
            return found
        last = found
        time.sleep(0.5)
    return last


def test_enough_programs() -> None:
    assert len(HOSTILE) >= 30


@pytest.mark.parametrize("name", HOSTILE)
def test_no_verdict_and_the_next_request_is_served(suite: Suite, name: str) -> None:
    assert suite.answers[name]["results"] == [0], suite.answers[name]
    assert suite.next[name]["results"] == [1], suite.next[name]
    assert suite.seconds[name] < 20


def test_nothing_is_left_running_and_the_host_is_unharmed(suite: Suite) -> None:
    assert suite.after == suite.before
    assert suite.before["victim"] is None and suite.before["canary"]
    assert suite.before["processes"], "the judge's jail is there"
    places = ("/", "/tmp", "/var/tmp", "/dev", "/dev/shm", "/run", "/root", "/home", "/usr/lib")
    assert not [place for place in (*places, suite.canary.parent) if Path(place, mark(suite)).exists()]


def test_memory_stays_within_its_limits(suite: Suite) -> None:
    limits, slack = Limits(), 32 << 20
    assert MEMORY_MB << 19 < suite.largest < (MEMORY_MB << 20) + slack
    processes = limits.processes + OVERHEAD_PROCESSES
    jail = MEMORY_MB << 20
    if cgroup.hierarchies():
        jail += limits.scratch_bytes + TABLES
    else:
        jail *= processes
    assert suite.whole < SLOTS * (jail + processes * slack)


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_gets_no_more_than_its_limit(suite: Suite, name: str) -> None:
    program, test = FLOODS[name]
    answer = suite.ask(program, test, 10)
    assert answer["results"] == [1], answer


def test_the_service_ends_with_nothing_left(suite: Suite) -> None:
    """Last in this file: it stops the service."""
    pid = suite.server.process.pid
    suite.server.process.terminate()
    assert suite.server.process.wait(30) == 0
    assert not any(psutil.pid_exists(child) for child in suite.before["processes"])
    assert not [*(suite.directory / "temporary").iterdir()]
    assert not [group for place in cgroup.hierarchies() for group in place.glob(f"zgcm-{pid}-*")]
