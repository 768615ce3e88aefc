"""Does a program pass a test? Each test is one jail for the program; the judge lives in another.

Function tests: the program's process answers calls (`inside.candidate`), the tests run in a process of their
own (`inside.judge`), and the verdict comes from there through a channel that the program never sees.
Programs that read and write: this process feeds and compares.
"""

import contextlib
import json
import math
import os
import queue
import re
import select
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from zgcm.rl.sandbox import assets
from zgcm.rl.sandbox.jail import Jail, Run, StartError, running

START_SECONDS = 30.0
JUDGE_SLOT = 1
JUDGE_MEMORY_BYTES = 16 << 30
JUDGE_PROCESSES = 512
RELATIVE, ABSOLUTE, WHOLE = 1e-6, 1e-8, 1e-3
EXACT = 2.0**40
"""Below it a float tells numbers apart that differ by much less than WHOLE."""
_INTEGER = re.compile(r"[+-]?\d+")


@dataclass(frozen=True)
class Outcome:
    passed: bool
    seconds: float
    """From the program's first line to the verdict."""
    reason: str
    """`passed`, `timeout`, `the program ended`, an exception of the test's, ..."""


class Sandbox:
    """Judges programs, at most `slots` at a time; thread-safe. Made by `sandbox`."""

    def __init__(self, jail: Jail, orders: socket.socket, slots: int) -> None:
        self.jail = jail
        self.orders = orders
        self.lock = threading.Lock()
        self.slots: queue.SimpleQueue[int] = queue.SimpleQueue()
        for slot in range(slots):
            self.slots.put(JUDGE_SLOT + 1 + slot)
        self.threads = ThreadPoolExecutor(slots, thread_name_prefix="sandbox")

    def score(self, program: str, tests: Sequence[Any], task: str, seconds: float) -> list[Outcome]:
        """One outcome a test, in their order; tests run side by side as far as slots are free."""
        judge = self.call if task == "code" else self.run
        return list(self.threads.map(lambda test: judge(program, test, seconds), tests))

    def call(self, program: str, test: str, seconds: float) -> Outcome:
        """A test that calls what the program defines."""
        for _ in range(2):
            outcome = self._call(program, test, seconds)
            if outcome is not None:
                return outcome
        return Outcome(False, seconds, "the test's process ended, twice")

    def _call(self, program: str, test: str, seconds: float) -> Outcome | None:
        """None when the test's process ended without a verdict: the machine took it (no memory), or what it
        got from the program ended it. The latter happens again, and must not stop whoever trains."""
        with self._slot() as slot, _pair() as (channel, theirs), _pair() as (report, judges):
            code = f"from inside.candidate import main; main({theirs.fileno()})"
            with running(self.jail, slot, code, [theirs.fileno()]):
                theirs.close()
                self._begin(channel, program, seconds)
                started = time.monotonic()
                try:
                    with self.lock:
                        socket.send_fds(self.orders, [b"1"], [channel.fileno(), judges.fileno()])
                    channel.close()
                    judges.close()
                    _send(report, {"test": test, "seconds": math.ceil(seconds)})
                except OSError as error:
                    raise StartError("The judge has ended", hint="start the sandbox again") from error
                answer = _line(report, started + seconds)
                took = time.monotonic() - started
        if answer is None:
            return Outcome(False, took, "timeout")
        if not answer:
            return None
        verdict = json.loads(answer)
        return Outcome(verdict["passed"] is True, took, verdict["reason"])

    def run(self, program: str, test: dict[str, Any], seconds: float) -> Outcome:
        """A test of a program that reads stdin and writes stdout."""
        wanted = assets.text(test["output"])
        most = self.jail.limits.output_bytes + 4 * len(wanted.encode())
        with self._slot() as slot, _pair() as (channel, theirs):
            code = f"from inside.candidate import run_program; run_program({theirs.fileno()})"
            with running(self.jail, slot, code, [theirs.fileno()], output=True) as run:
                theirs.close()
                self._begin(channel, program, seconds)
                started = time.monotonic()
                end = started + seconds
                found = _exchange(run, assets.text(test["input"]).encode(), most, end)
                status = None
                while status is None and time.monotonic() < end and found is not None and len(found) <= most:
                    status = run.process.poll()
                    time.sleep(0 if status is not None else 0.001)
                took = time.monotonic() - started
        if found is not None and len(found) > most:
            return Outcome(False, took, f"more than {most} bytes of output")
        if found is None or status is None:
            return Outcome(False, took, "timeout")
        if status:
            return Outcome(False, took, f"exit status {status}")
        same = same_output(found.decode(errors="replace"), wanted)
        return Outcome(same, took, "passed" if same else "another output")

    @contextlib.contextmanager
    def _slot(self) -> Iterator[int]:
        slot = self.slots.get()
        try:
            yield slot
        finally:
            self.slots.put(slot)

    def _begin(self, channel: socket.socket, program: str, seconds: float) -> None:
        """Hand over the program and wait until it is about to run. Up to here nothing is its fault."""
        limits = self.jail.limits.rlimits(max(2, math.ceil(seconds) + 1))
        try:
            _send(channel, {"program": program, "limits": limits})
            channel.settimeout(START_SECONDS)
            ready = channel.recv(1)
            channel.settimeout(None)
        except OSError as error:
            raise StartError("The sandbox does not start", found=str(error)) from error
        if ready != b"R":
            raise StartError(
                "The sandbox does not start", found="its process ended", hint="zgcm sandbox attest"
            )


@contextlib.contextmanager
def sandbox(jail: Jail, slots: int) -> Iterator[Sandbox]:
    """Start the judge; the thread that does must outlive the sandbox. Raises StartError."""
    limits = replace(jail.limits, memory_bytes=JUDGE_MEMORY_BYTES, processes=JUDGE_PROCESSES)
    with _pair() as (orders, theirs):
        code = f"from inside.judge import main; main({theirs.fileno()})"
        with running(replace(jail, limits=limits), JUDGE_SLOT, code, [theirs.fileno()]):
            theirs.close()
            orders.settimeout(START_SECONDS)
            try:
                ready = orders.recv(1)
            except OSError as error:
                raise StartError("The judge does not start", found=str(error)) from error
            if ready != b"R":
                raise StartError("The judge does not start", found="its process ended")
            made = Sandbox(jail, orders, slots)
            try:
                yield made
            finally:
                made.threads.shutdown(cancel_futures=True)


def same_output(found: str, wanted: str) -> bool:
    """Equal word by word; numbers that are no integers within 1e-6 relative or 1e-8 absolute. A decimal for
    an integer is within 1e-3 too, and exact above EXACT: 1.2345e17 is not 123450000000000001."""
    words, others = found.split(), wanted.split()
    return len(words) == len(others) and all(map(_same_word, words, others))


def _same_word(found: str, wanted: str) -> bool:
    if found == wanted:
        return True
    try:
        if _INTEGER.fullmatch(wanted):
            if _INTEGER.fullmatch(found):
                return int(found) == int(wanted)
            value, whole = float(found), int(wanted)
            if max(abs(value), abs(whole)) >= EXACT:
                return Decimal(found) == whole
            near = min(WHOLE, max(RELATIVE * abs(whole), ABSOLUTE))
            return math.isclose(value, whole, rel_tol=0, abs_tol=near)
        return math.isclose(float(found), float(wanted), rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    except ValueError:
        return False


def _exchange(run: Run, given: bytes, most: int, end: float) -> bytes | None:
    """Feed stdin and read stdout to its end, or to more than `most` bytes; None at the deadline."""
    stdin, stdout = run.process.stdin, run.process.stdout
    assert stdin is not None and stdout is not None
    os.set_blocking(stdin.fileno(), False)
    left = memoryview(given)
    parts: list[bytes] = []
    size = 0
    if not left:
        stdin.close()
    while (wait := end - time.monotonic()) > 0:
        readable, writable, _ = select.select([stdout], [] if stdin.closed else [stdin], [], wait)
        if writable:
            try:
                left = left[os.write(stdin.fileno(), left) :]
            except BrokenPipeError:  # the program reads no further
                left = left[:0]
            if not left:
                stdin.close()
        if readable:
            part = os.read(stdout.fileno(), 65536)
            parts.append(part)
            size += len(part)
            if not part or size > most:
                return b"".join(parts)
    return None


@contextlib.contextmanager
def _pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    mine, theirs = socket.socketpair()
    with mine, theirs:
        yield mine, theirs


def _send(channel: socket.socket, message: Any) -> None:
    body = json.dumps(message).encode()
    channel.settimeout(START_SECONDS)
    channel.sendall(len(body).to_bytes(4) + body)
    channel.settimeout(None)  # it is the other side's descriptor too: blocking


def _line(channel: socket.socket, end: float) -> bytes | None:
    """One message; None at the deadline, empty when the other side ended."""
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4]):
        left = end - time.monotonic()
        if left <= 0 or not select.select([channel], [], [], left)[0]:
            return None
        part = channel.recv(65536)
        if not part:
            return b""
        data += part
    return data[4:]
