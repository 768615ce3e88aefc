"""Actors that never answer: each call has a deadline, says what was too late, and nothing is left behind."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from requests_to_stop import asked_after

from zgcm import stopping
from zgcm.config.rl import RLStage
from zgcm.errors import ZgcmError
from zgcm.rl import actors, sync
from zgcm.rl.cluster import ray_cluster

pytestmark = pytest.mark.slow
SECONDS = 2
STAGE = {
    "kind": "rl",
    "domain": "math",
    "steps": 1,
    "prompts": {"kind": "files", "train": "a", "valid": "b"},
}
SETUP, REQUEST, SYNC = "rollout.setup_timeout", "rollout.request_timeout", "rollout.sync_timeout"
LEARNER = "learner.timeout"
PATIENT = STAGE | {"rollout": {"setup_timeout": 60}}
NOTHING: Any = {"names": [], "dtype_names": [], "shapes": []}


class Stuck:
    """Stands for an engine and for a learner process: comes up, then stops in the middle of any call."""

    def __init__(self, *_: Any) -> None:
        pass

    def is_up(self) -> None:
        pass

    def stop(self, *_: Any) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    ready = generate = load = build = step = weights = save_state = stop
    join_transfer = send = receive = stop

    def address(self) -> str:
        return "localhost:1"


class Refusing(Stuck):
    def __init__(self, *_: Any) -> None:
        raise ValueError("no weights here\nand none there")


@pytest.fixture(scope="module")
def ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Raises when a process outlives the cluster, though all of them are stopped."""
    before = set(psutil.Process().children(recursive=True))
    with ray_cluster(cpus=1, gpus=0, logs=tmp_path_factory.mktemp("logs") / "ray"):
        from ray import cloudpickle

        cloudpickle.register_pickle_by_value(sys.modules[__name__])  # Ray's workers cannot import a test
        yield
        mine = set(psutil.Process().children(recursive=True)) - before
    _, alive = psutil.wait_procs(mine, timeout=60)
    assert not alive


class Failing(Stuck):
    def receive(self, *_: Any) -> None:
        raise ZgcmError("The rollout engine could not drop its prefix cache")


def synchronise(learners: Any, rollouts: Any) -> None:
    rollouts.load(b"weights", "checksum", 1)


CALLS: dict[str, tuple[Callable[[Any, Any], Any], str, str]] = {
    "engine starts": (
        lambda learners, rollouts: rollouts.wait_ready(),
        "Starting the rollout engines",
        SETUP,
    ),
    "rollout": (lambda learners, rollouts: rollouts.generate([], None), "Sampling responses", REQUEST),
    "sync": (synchronise, "Loading new weights", SYNC),
    "learner starts": (
        lambda learners, rollouts: (learners.build(), learners.wait_ready()),
        "Starting the learner",
        SETUP,
    ),
    "update": (lambda learners, rollouts: learners.step([], 0, 1), "A learner step", LEARNER),
    "weights": (lambda learners, rollouts: learners.weights(), "Collecting the weights", SYNC),
    "group of a transfer": (
        lambda learners, rollouts: sync.connect(learners, rollouts),
        "Connecting the learner and the engines",
        SYNC,
    ),
    "transfer": (
        lambda learners, rollouts: sync.by_nccl(learners, rollouts, NOTHING, 1),
        "Transferring new weights",
        SYNC,
    ),
    "recover point": (
        lambda learners, rollouts: learners.save_state(Path("nowhere")),
        "Saving a recover point",
        LEARNER,
    ),
}


@pytest.mark.parametrize(("call", "what", "key"), CALLS.values(), ids=CALLS)
@pytest.mark.usefixtures("ray")
def test_a_stuck_process_is_an_error_after_its_deadline(
    call: Callable[[Any, Any], Any], what: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key of its kind alone says how long; the others' hours do not matter."""
    monkeypatch.setattr(actors, "EngineActor", Stuck)
    monkeypatch.setattr(actors, "LearnerActor", Stuck)
    section, _, name = key.partition(".")
    stage = RLStage.model_validate(STAGE | {section: {name: SECONDS}})
    learners = actors.Learners(Path("policy"), stage, cpu=True)
    rollouts = actors.Rollouts(Path("policy"), stage, cpu=True)
    wait_up(learners, rollouts)
    begun = time.monotonic()
    with pytest.raises(ZgcmError, match=f"{what} took too long") as caught:
        call(learners, rollouts)
    assert SECONDS <= time.monotonic() - begun < SECONDS + 20
    assert (caught.value.found, caught.value.where) == (f"more than {SECONDS} s", key)
    assert any(child.status() == psutil.STATUS_STOPPED for child in psutil.Process().children(recursive=True))


@pytest.mark.usefixtures("ray")
def test_a_process_that_cannot_start_is_an_error_that_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actors, "EngineActor", Refusing)
    rollouts = actors.Rollouts(Path("policy"), RLStage.model_validate(PATIENT), cpu=True)
    with pytest.raises(ZgcmError, match="Starting the rollout engines failed: its process died") as caught:
        rollouts.wait_ready()
    assert caught.value.found == "ValueError: no weights here\nand none there"


@pytest.mark.usefixtures("ray")
def test_a_failed_engine_is_told_at_once_while_the_learner_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actors, "EngineActor", Failing)
    monkeypatch.setattr(actors, "LearnerActor", Stuck)
    stage = RLStage.model_validate(STAGE | {"rollout": {"sync_timeout": 600}})
    learners = actors.Learners(Path("policy"), stage, cpu=True)
    rollouts = actors.Rollouts(Path("policy"), stage, cpu=True)
    wait_up(learners, rollouts)
    begun = time.monotonic()
    with pytest.raises(ZgcmError, match="could not drop its prefix cache"):
        sync.by_nccl(learners, rollouts, NOTHING, 1)
    assert time.monotonic() - begun < 60


@pytest.fixture
def learners(monkeypatch: pytest.MonkeyPatch, ray: None) -> Any:
    """Of no use, and without a request to stop so far."""
    monkeypatch.setattr(stopping, "received", [])
    monkeypatch.setattr(actors, "LearnerActor", Stuck)
    return actors.Learners(Path("policy"), RLStage.model_validate(PATIENT), cpu=True)


def test_a_start_ends_as_soon_as_a_stop_is_asked(learners: Any) -> None:
    learners.build()
    begun = time.monotonic()
    with (
        pytest.raises(stopping.Interrupted) as caught,
        stopping.deferring(),
        asked_after(0.5, signal.SIGTERM),
    ):
        learners.wait_ready()
    assert caught.value.code == 128 + signal.SIGTERM
    assert time.monotonic() - begun < PATIENT["rollout"]["setup_timeout"] / 2


def test_a_step_does_not_end_when_a_stop_is_asked(learners: Any) -> None:
    with stopping.deferring() as asked, asked_after(0.5, signal.SIGTERM):
        with pytest.raises(ZgcmError, match="A learner step took too long"):
            actors.wait(learners.processes[0].step.remote(), SECONDS, "A learner step")
        assert asked() == signal.SIGTERM


@pytest.mark.parametrize("number", stopping.REQUESTS)
def test_what_a_handler_raises_keeps_its_exit_code(learners: Any, number: int) -> None:
    """`zgcm rl --train-only` ends at once; Ray makes another exit of it, with code 1."""
    before = [signal.getsignal(one) for one in stopping.REQUESTS]
    stopping.end_in_order()
    try:
        with pytest.raises(stopping.Interrupted) as caught, asked_after(0.5, number):
            learners.step([], 0, 1)
    finally:
        for one, handler in zip(stopping.REQUESTS, before, strict=True):
            signal.signal(one, handler)
    assert caught.value.code == 128 + number


def test_ray_leaves_the_handlers_alone(ray: None) -> None:
    """It is running; ray.init would have set another handler of SIGTERM, and one in C++ under it."""
    handlers = [signal.getsignal(number) for number in stopping.REQUESTS]
    assert not [one for one in handlers if getattr(one, "__module__", "").startswith("ray.")]


def wait_up(learners: Any, rollouts: Any) -> None:
    """The deadline is one of the call: a worker of Ray's may need longer than that to come up."""
    import ray

    ray.get([actor.is_up.remote() for actor in learners.processes + rollouts.engines], timeout=60)
