"""Verifier processes with one hard deadline a task: a task that takes longer loses its process only."""

import contextlib
import json
import os
import queue
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from zgcm.errors import ZgcmError
from zgcm.rl.lines import read_line
from zgcm.rl.rewards.registry import Checkout

START_SECONDS = 120.0
Task = Sequence[Any]
"""(domain, answer, label or constraints), as `zgcm.rl.rewards.worker` takes it."""


@dataclass(frozen=True)
class Verdict:
    equal: bool
    failure: str = ""
    """Empty, `timeout`, `died` (out of memory, crash), or the exception's name and text."""


@dataclass(frozen=True)
class Checked:
    satisfied: list[bool]
    """A verdict a constraint; empty with a failure."""
    failure: str = ""


class Verifier:
    """One process, started when needed. Not for use from two threads at once."""

    def __init__(
        self,
        deadline: float,
        tolerance: float = 0.0,
        domains: Sequence[str] = ("math",),
        checkout: Checkout | None = None,
    ) -> None:
        self.deadline = deadline
        self.arguments = [str(deadline), str(tolerance), *domains]
        if checkout is not None:
            self.arguments += ["--open-instruct", str(checkout.directory), checkout.sha256]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "zgcm.rl.rewards.worker", *self.arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        if read_line(self.process, START_SECONDS) != b"ready\n":
            self.stop()
            raise ZgcmError(
                "A verifier process does not start",
                hint=f"try: python -m zgcm.rl.rewards.worker {shlex.join(self.arguments)}",
            )

    def ask(self, task: Task) -> tuple[Any, str]:
        """(verdict, ""), or (None, failure). Never takes longer than the deadline plus, after a kill, a start
        (1 s)."""
        if self.process is None:
            self.start()
        assert self.process is not None and self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(task).encode() + b"\n")
            self.process.stdin.flush()
            line = read_line(self.process, self.deadline)
        except BrokenPipeError:
            line = b""
        if line is None or not line.endswith(b"\n"):
            self.stop()
            return None, "timeout" if line is None else "died"
        answer = json.loads(line)
        return answer.get("verdict"), answer.get("error", "")

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.kill()
        self.process.communicate()
        self.process = None


class VerifierPool:
    """A few verifiers that share a list of tasks."""

    def __init__(
        self,
        workers: int,
        deadline: float,
        tolerance: float = 0.0,
        domains: Sequence[str] = ("math",),
        checkout: Checkout | None = None,
    ) -> None:
        self.verifiers = [Verifier(deadline, tolerance, domains, checkout) for _ in range(workers)]
        self.threads = ThreadPoolExecutor(workers, thread_name_prefix="verifier")
        self.idle: queue.SimpleQueue[Verifier] = queue.SimpleQueue()
        for verifier in self.verifiers:
            self.idle.put(verifier)

    def judge(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict]:
        """Verdicts of (answer, gold) pairs of mathematics, in their order."""
        return [
            Verdict(bool(equal), failure)
            for equal, failure in self._ask([("math", found, gold) for found, gold in pairs])
        ]

    def check(self, answers: Sequence[tuple[str, list[dict[str, Any]]]]) -> list[Checked]:
        """Which constraints each (answer, ifeval_spec) satisfies, in their order."""
        return [
            Checked(verdicts or [], failure)
            for verdicts, failure in self._ask([("if", answer, spec) for answer, spec in answers])
        ]

    def _ask(self, tasks: Sequence[Task]) -> list[tuple[Any, str]]:
        """A process that died may have been one of many that were too much for the machine: its task is asked
        once more, in a fresh process while the others rest. What kills that one too has no verdict."""
        answers = list(self.threads.map(self._one, tasks))
        for place, (_, failure) in enumerate(answers):
            if failure == "died":
                answers[place] = self._one(tasks[place], fresh=True)
        return answers

    def _one(self, task: Task, *, fresh: bool = False) -> tuple[Any, str]:
        verifier = self.idle.get()
        try:
            if fresh:
                verifier.stop()
            return verifier.ask(task)
        finally:
            self.idle.put(verifier)

    def close(self) -> None:
        self.threads.shutdown(cancel_futures=True)
        for verifier in self.verifiers:
            verifier.stop()


@contextlib.contextmanager
def verifier_pool(
    workers: int,
    deadline: float,
    tolerance: float = 0.0,
    domains: Sequence[str] = ("math",),
    checkout: Checkout | None = None,
) -> Iterator[VerifierPool]:
    """`deadline`: seconds a task; `tolerance`: as in `zgcm.rl.rewards.math.equal`; `domains` (math, if): what
    is asked of it; `checkout`: the checkers of instructions."""
    pool = VerifierPool(workers, deadline, tolerance, domains, checkout)
    try:
        yield pool
    finally:
        pool.close()
