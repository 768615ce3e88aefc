"""What a stage does about a lost process: a new start after a pause, a few times; nothing about the rest."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ray.exceptions import ActorDiedError, NodeDiedError, RayTaskError
from requests_to_stop import asked_after

from zgcm import stopping
from zgcm.errors import ZgcmError
from zgcm.io import read_json
from zgcm.rl import actors, attempts, recover, restarts
from zgcm.rl.actors import ActorLost
from zgcm.stopping import Stopped

LOST = ActorLost("A learner step failed: its process died", found="worker died\nwith code 9")


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr(restarts, "pause", found.append)
    return found


def training(*outcomes: Any) -> Callable[[], Any]:
    left = list(outcomes)

    def train() -> Any:
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome() if callable(outcome) else outcome

    return train


def test_a_lost_process_is_a_new_start_each_after_a_longer_pause(tmp_path: Path, pauses: list[float]) -> None:
    said: list[str] = []
    train = training(LOST, NodeDiedError("node 2 is gone"), LOST, "trained")
    assert restarts.until_kept("rl_math", 4, tmp_path, train, said.append) == "trained"
    assert pauses == [5, 30, 120]
    assert said[0] == (
        "rl_math: A learner step failed: its process died (worker died with code 9); a new start in 5 s, "
        "from step 0 (1 of 3 without a recover point in between)"
    )
    assert "NodeDiedError: node 2 is gone" in said[1] and len(said) == 3


def test_the_fourth_loss_in_a_row_is_the_stages_error(tmp_path: Path, pauses: list[float]) -> None:
    with pytest.raises(ActorLost) as caught:
        restarts.until_kept("rl_math", 4, tmp_path, training(LOST, LOST, LOST, LOST), lambda line: None)
    assert caught.value is LOST and pauses == [5, 30, 120]


def test_a_recover_point_begins_the_count_again(tmp_path: Path, pauses: list[float]) -> None:
    steps = iter(range(1, 9))

    def lost_after_a_step() -> None:
        recover.save(tmp_path, next(steps), lambda directory: directory.mkdir(), None, keep=2)
        raise LOST

    train = training(LOST, LOST, *[lost_after_a_step] * 4, "trained")
    assert restarts.until_kept("rl_math", 4, tmp_path, train, lambda line: None) == "trained"
    assert pauses == [5, 30, 5, 5, 5, 5]


@pytest.mark.parametrize("error", [ZgcmError("Learner and rollout engine disagree"), ValueError("a bug")])
def test_what_would_come_again_is_told_at_once(tmp_path: Path, pauses: list[float], error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        restarts.until_kept("rl_math", 4, tmp_path, training(error, "never"), lambda line: None)
    assert caught.value is error and not pauses


@pytest.mark.parametrize("error", [LOST, RuntimeError("Connection closed by peer")])
def test_what_fails_after_a_request_to_stop_is_the_stop(
    tmp_path: Path, pauses: list[float], error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two preemptions within one step must not make the run refuse further attempts."""
    monkeypatch.setattr(stopping, "received", [signal.SIGTERM])
    for _ in range(3):
        said: list[str] = []
        with pytest.raises(Stopped) as caught, attempts.attempt(tmp_path, lambda: 0):
            restarts.until_kept("rl_math", 4, tmp_path, training(error), said.append)
        assert caught.value.code == 128 + signal.SIGTERM
        assert said == [f"rl_math: failed after the request to stop: {error}"]
    assert not pauses and not (tmp_path / "stopped.json").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR2])
def test_a_request_ends_the_pause_before_a_new_start(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "received", [])
    with (
        pytest.raises(Stopped, match="rl_math had saved no step yet") as caught,
        attempts.attempt(tmp_path, lambda: 0),
        stopping.deferring(),
        asked_after(0.1, number),
    ):
        begun = time.monotonic()
        restarts.until_kept("rl_math", 4, tmp_path, training(LOST, "never"), lambda line: None)
    assert caught.value.code == 128 + number and time.monotonic() - begun < restarts.BACK_OFF_SECONDS[0]
    assert read_json(tmp_path / "run.json")["attempts"][0]["stopped_on_request"]


class Calls:
    """Stands for Ray: each call is its own outcome."""

    def get(self, calls: Any, timeout: float = 0) -> Any:
        for call in calls if isinstance(calls, list) else [calls]:
            if isinstance(call, Exception):
                raise call
        return calls

    def wait(self, calls: list[Any], **_: Any) -> tuple[list[Any], list[Any]]:
        return calls, []


def task_error(cause: Exception) -> RayTaskError:
    return RayTaskError("step", "Traceback", cause)


class DistBackendError(RuntimeError):
    """torch.distributed's name for what NCCL reports."""


DEATHS = {
    "the process": [ActorDiedError()],
    "its node": [NodeDiedError("node 2 is gone")],
    "a peer": [task_error(RuntimeError("Connection closed by peer")), ActorDiedError()],
    "a peer in NCCL": [task_error(DistBackendError("remote process exited"))],
    "a worker of vLLM": [task_error(RuntimeError("Executor failed."))],
    "the owner of an argument": [task_error(ActorDiedError())],
}


@pytest.mark.parametrize("calls", DEATHS.values(), ids=DEATHS)
def test_every_kind_of_death_is_a_lost_actor(calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Calls()
    monkeypatch.setattr("ray.get", fake.get)
    monkeypatch.setattr("ray.wait", fake.wait)
    with pytest.raises(ActorLost, match="A learner step failed: its process died"):
        actors.wait(calls, 1, "A learner step")


@pytest.mark.parametrize("cause", [ZgcmError("disagree"), IndexError("a bug")])
def test_an_error_of_the_code_is_no_lost_actor(cause: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Calls()
    monkeypatch.setattr("ray.get", fake.get)
    monkeypatch.setattr("ray.wait", fake.wait)
    with pytest.raises(ZgcmError) as caught:
        actors.wait([task_error(cause), "fine"], 1, "A learner step")
    assert not isinstance(caught.value, ActorLost) and str(cause).rstrip(".") in str(caught.value)
