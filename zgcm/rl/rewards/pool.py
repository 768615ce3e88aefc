"""Verifier processes with one hard deadline a pair: a pair that takes longer loses its process only."""

import contextlib
import json
import os
import queue
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from zgcm.errors import ZgcmError

START_SECONDS = 120.0


@dataclass(frozen=True)
class Verdict:
    equal: bool
    failure: str = ""
    """Empty, `timeout`, `died` (out of memory, crash), or the exception's name and text."""


class Verifier:
    """One process, started when needed. Not for use from two threads at once."""

    def __init__(self, deadline: float, tolerance: float = 0.0) -> None:
        self.deadline = deadline
        self.tolerance = tolerance
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "zgcm.rl.rewards.worker", str(self.deadline), str(self.tolerance)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        if self._read_line(START_SECONDS) != b"ready\n":
            self.stop()
            raise ZgcmError(
                "A verifier process does not start", hint="try: python -m zgcm.rl.rewards.worker 8 0"
            )

    def judge(self, found: str, gold: str) -> Verdict:
        """Never takes longer than the deadline plus, after a kill, a start (1 s)."""
        if self.process is None:
            self.start()
        assert self.process is not None and self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps([found, gold]).encode() + b"\n")
            self.process.stdin.flush()
            line = self._read_line(self.deadline)
        except BrokenPipeError:
            line = b""
        if line is None or not line.endswith(b"\n"):
            self.stop()
            return Verdict(False, "timeout" if line is None else "died")
        answer = json.loads(line)
        return Verdict(answer.get("equal", False), answer.get("error", ""))

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.kill()
        self.process.communicate()
        self.process = None

    def _read_line(self, seconds: float) -> bytes | None:
        """A line; what there was of it when the process ended; None at the deadline."""
        assert self.process is not None and self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        end = time.monotonic() + seconds
        line = b""
        while not line.endswith(b"\n"):
            left = end - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                return None
            part = os.read(descriptor, 65536)
            if not part:
                break
            line += part
        return line


class VerifierPool:
    """A few verifiers that share a list of pairs."""

    def __init__(self, workers: int, deadline: float, tolerance: float = 0.0) -> None:
        self.verifiers = [Verifier(deadline, tolerance) for _ in range(workers)]
        self.threads = ThreadPoolExecutor(workers, thread_name_prefix="verifier")

    def judge(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict]:
        """Verdicts of (answer, gold) pairs, in their order."""
        idle: queue.SimpleQueue[Verifier] = queue.SimpleQueue()
        for verifier in self.verifiers:
            idle.put(verifier)

        def one(pair: tuple[str, str]) -> Verdict:
            verifier = idle.get()
            try:
                return verifier.judge(*pair)
            finally:
                idle.put(verifier)

        return list(self.threads.map(one, pairs))

    def close(self) -> None:
        self.threads.shutdown(cancel_futures=True)
        for verifier in self.verifiers:
            verifier.stop()


@contextlib.contextmanager
def verifier_pool(workers: int, deadline: float, tolerance: float = 0.0) -> Iterator[VerifierPool]:
    """`deadline`: seconds a pair; `tolerance`: as in `zgcm.rl.rewards.math.equal`."""
    pool = VerifierPool(workers, deadline, tolerance)
    try:
        yield pool
    finally:
        pool.close()
