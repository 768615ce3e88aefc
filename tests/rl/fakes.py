"""Engines and learner that a stage runs with in milliseconds; they notice every call and can die at any.

The learner is four numbers; the engine's answers are a function of the request's seed and of the weights it
was given last. A run with them goes through the whole loop and through every file that it writes.
"""

import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zgcm.rl import catchup, recover, run
from zgcm.rl.evaluation import evaluate_and_mark
from zgcm.rl.experience import UPDATE_KEYS, policy_directory
from zgcm.rl.grpo import Loop
from zgcm.rl.prepare import Run
from zgcm.rl.rewards.pool import Verdict
from zgcm.rl.rewards.router import Judges
from zgcm.rl.trajectory import Comparison, Response
from zgcm.rundir.manifest import write_manifest

NOTHING = -1
"""The version of an engine that was given no weights yet."""


class Killed(BaseException):
    """kill -9, as far as one process can pretend it: nothing that handles an Exception runs."""


class Moments:
    """Numbers every moment at which a run could die, and lets it die at one."""

    def __init__(self, fatal: int | None = None) -> None:
        self.fatal = fatal
        self.names: list[str] = []

    def pass_by(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) == self.fatal:
            raise Killed(name)

    def around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **options: Any) -> Any:
            self.pass_by(f"before {name}")
            result = function(*arguments, **options)
            self.pass_by(f"after {name}")
            return result

        return watched

    def watch(self, thing: Any, *methods: str) -> Any:
        for method in methods:
            name = f"{type(thing).__name__}.{method}"
            setattr(thing, method, self.around(name, getattr(thing, method)))
        return thing

    def watch_files(self, patch: pytest.MonkeyPatch) -> None:
        """Every rename, link and removal; and a line that is only half written."""
        patch.setattr(Path, "replace", self.around("rename", Path.replace))
        patch.setattr(os, "link", self.around("link", os.link))
        patch.setattr(shutil, "rmtree", self.around("rmtree", shutil.rmtree))
        patch.setattr(os, "fsync", lambda descriptor: None)
        append = recover.append

        def in_halves(path: Path, record: dict[str, Any]) -> None:
            self.pass_by(f"before {path.name}")
            before = path.read_bytes() if path.exists() else b""
            append(path, record)
            whole = path.read_bytes()
            path.write_bytes(whole[: (len(before) + len(whole)) // 2])
            self.pass_by(f"half of {path.name}")
            path.write_bytes(whole)

        patch.setattr(recover, "append", in_halves)


class Learner:
    def __init__(self, moments: Moments) -> None:
        self.moments = moments
        self.numbers = [0.0, 1.0, 2.0, 3.0]

    def step(self, batch: list[Any], step: int, total_steps: int) -> dict[str, float]:
        for place in range(4):
            self.numbers[place] += sum(
                item.advantage * token for item in batch for token in item.token_ids[place::4]
            )
        return {**dict.fromkeys(UPDATE_KEYS, 0.0), "loss": sum(self.numbers), "grad_norm": step / total_steps}

    def compare(self, batch: list[Any]) -> Comparison:
        return Comparison([item.logprobs for item in batch], 0.0, 0.0, 0.0)

    def weights(self) -> tuple[str, str]:
        payload = json.dumps(self.numbers)
        return payload, hashlib.sha256(payload.encode()).hexdigest()

    def save_policy(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "weights").write_text(json.dumps(self.numbers))
        self.moments.pass_by("half of a policy")
        write_manifest(directory)

    def save_state(self, directory: Path) -> None:
        directory.mkdir()
        (directory / "one").write_text(json.dumps(self.numbers[:2]))
        self.moments.pass_by("half of a recover point")
        (directory / "two").write_text(json.dumps(self.numbers[2:]))

    def load_state(self, directory: Path) -> None:
        self.numbers = [n for name in ("one", "two") for n in json.loads((directory / name).read_text())]


class Engine:
    def __init__(self, answers: list[list[int]]) -> None:
        self.answers = answers
        self.payload, self.version = "", NOTHING

    def versions(self) -> list[int]:
        return [self.version]

    def load(self, payload: str, digest: str, version: int) -> None:
        assert hashlib.sha256(payload.encode()).hexdigest() == digest
        self.payload, self.version = payload, version

    def start(self, requests: list[Any], sampling: Any) -> list[list[Response]]:
        return [
            [self.answer(f"{request.seed}/{number}") for number in range(sampling.n_samples)]
            for request in requests
        ]

    def collect(self, calls: list[list[Response]]) -> list[list[Response]]:
        return calls

    def generate(self, requests: list[Any], sampling: Any) -> list[list[Response]]:
        return self.collect(self.start(requests, sampling))

    def answer(self, seed: str) -> Response:
        draw = random.Random(f"{seed}/{self.payload}")
        tokens = draw.choice(self.answers)
        return Response(tokens, [-draw.random() for _ in tokens], "stop", self.version)


def judges_of(job: Run) -> Judges:
    """The stage's own; whatever would need a verifier process is wrong."""
    return Judges(job.stage.reward, job.special_tokens, Pool(), None)  # type: ignore[arg-type]


class Pool:
    def judge(self, pairs: list[tuple[str, str]]) -> list[Verdict]:
        return [Verdict(False) for _ in pairs]


def use(patch: pytest.MonkeyPatch, moments: Moments, answers: list[list[int]]) -> None:
    """From now on `run_stage` trains with these, and passes the moments."""

    def train(job: Run) -> dict[str, float]:
        for version in catchup.missing(job):
            held = Engine(answers)
            initial = json.dumps(Learner(moments).numbers)
            policy = policy_directory(job.directory, version) / "weights"
            held.payload, held.version = policy.read_text() if version else initial, version
            evaluate_and_mark(job, held, judges_of(job), version, resumed=True)  # type: ignore[arg-type]
        if run.is_finished(job):
            return {}
        learner = moments.watch(Learner(moments), "step", "compare", "weights", "load_state")
        engine = moments.watch(Engine(answers), "load", "start", "collect")
        loop = Loop(job, learner, engine, judges_of(job), lambda line: None)  # type: ignore[arg-type]
        loop.run()
        return dict(loop.seconds)

    patch.setattr(run, "train_with_actors", train)
    moments.watch_files(patch)
