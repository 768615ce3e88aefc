"""Endings in good order: a queue's limit, a signal to several processes, saves in the background."""

import signal
import time
from pathlib import Path

import pytest

from tests.train.commands import done, losses, run, run_directory, start
from tests.train.workspace import make, write_recipe
from zgcm.train.checkpoints import TRACKER, complete_iterations

pytestmark = pytest.mark.slow


def workspace(root: Path, iterations: int = 8, **stage) -> Path:
    length = {"train_iters": iterations}
    changes = {
        "stages": {"one": {"schedule": length, **stage}, "two": {"schedule": {"train_iters": 2_000_000}}}
    }
    make(root / "results", **changes)
    write_recipe(root / "recipe.yaml", **changes)
    return root


def checkpoints(root: Path) -> Path:
    return (run_directory(root, "one") or root) / "checkpoints"


def wait_for(process, condition) -> None:
    while not condition():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)


def test_a_save_in_the_background_is_published_manifest_first_and_changes_nothing(tmp_path):
    root = workspace(tmp_path / "async", checkpoints={"save_interval": 3, "async_save": True})
    process, named = start(root, "one"), set()
    while process.poll() is None:
        tracker = checkpoints(root) / TRACKER
        if tracker.exists() and (text := tracker.read_text()):  # megatron empties it before it writes
            named.add(int(text))
            assert named <= set(complete_iterations(checkpoints(root))) | {3}  # 3 is pruned at the end
        time.sleep(0.005)
    assert process.returncode == 0, process.stderr.read()
    assert {3, 8} & named
    assert complete_iterations(checkpoints(root)) == [6, 8], "keep_recent holds for the last one too"
    plain = workspace(tmp_path / "plain", checkpoints={"save_interval": 3})
    assert run(plain, "one")[0] == 0
    assert done(root, "one") == done(plain, "one")
    assert losses(root, "one") == losses(plain, "one")


@pytest.mark.long
def test_several_processes_save_when_asked_to_stop(tmp_path):
    root = workspace(
        tmp_path, iterations=40, resources={"processes_per_node": 2}, checkpoints={"save_interval": 40}
    )
    process = start(root, "one")
    wait_for(process, lambda: len(losses(root, "one")) >= 4)
    process.send_signal(signal.SIGUSR2)
    errors = process.communicate(timeout=600)[1]
    assert process.returncode == 128 + signal.SIGUSR2
    assert "Stopped at your request: one saved step" in errors
    saved = complete_iterations(checkpoints(root))
    assert len(saved) == 1
    assert 4 <= saved[0] < 40
    code, errors = run(root, "one")
    assert code == 0, errors
    assert f"one continues at step {saved[0]} of 40" in errors


@pytest.mark.long
def test_an_attempt_ends_after_its_minutes_and_may_be_repeated(tmp_path):
    root = workspace(
        tmp_path, iterations=1_000_000, checkpoints={"save_interval": 1_000_000, "exit_after_minutes": 1}
    )
    for attempt in (1, 2, 3):  # more than the two that a failing trainer is granted
        before = max(complete_iterations(checkpoints(root)), default=0)
        code, errors = run(root, "one")
        assert code == 1, attempt
        assert "Stopped on request; one is saved at step" in errors
        assert max(complete_iterations(checkpoints(root))) > before
    assert not (run_directory(root, "one") / "stopped.json").exists()
