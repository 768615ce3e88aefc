"""kill -9 in the middle of a stage and during a save; then the same command again, digit for digit."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.train.commands import done, kill_when, losses, run, run_directory, start
from tests.train.workspace import make, write_recipe
from zgcm.train.checkpoints import TRACKER, complete_iterations

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> Path:
    root = workspace(tmp_path_factory.mktemp("uninterrupted"))
    assert run(root, "one")[0] == 0
    return root


def workspace(root: Path, **changes) -> Path:
    make(root / "results", **changes)
    write_recipe(root / "recipe.yaml", **changes)
    return root


def checkpoints(root: Path) -> Path:
    directory = run_directory(root, "one")
    return directory / "checkpoints" if directory else root / "none yet"


def same_end(root: Path, uninterrupted: Path) -> None:
    assert losses(root, "one") == losses(uninterrupted, "one")
    assert done(root, "one") == done(uninterrupted, "one")


def test_killed_in_the_middle(tmp_path, uninterrupted):
    root = workspace(tmp_path)
    kill_when(start(root, "one"), lambda: len(losses(root, "one")) >= 5)
    assert complete_iterations(checkpoints(root)) == [3]
    code, errors = run(root, "one")
    assert code == 0
    assert "one continues at step 3 of 8" in errors
    same_end(root, uninterrupted)


def test_killed_during_a_save(tmp_path, uninterrupted):
    root = workspace(tmp_path)
    kill_when(start(root, "one"), lambda: (checkpoints(root) / "iter_0000006").exists())
    whole = complete_iterations(checkpoints(root))
    assert whole in ([3], [3, 6])  # almost always [3]: the kill comes within 2 ms of the first file
    assert int((checkpoints(root) / TRACKER).read_text()) in whole
    assert run(root, "one")[0] == 0
    same_end(root, uninterrupted)


def test_a_damaged_checkpoint_is_passed_over(tmp_path, uninterrupted):
    root = workspace(tmp_path)
    kill_when(start(root, "one"), lambda: len(losses(root, "one")) >= 7)
    assert complete_iterations(checkpoints(root)) == [3, 6]
    shard = next((checkpoints(root) / "iter_0000006").glob("*.distcp"))
    os.truncate(shard, shard.stat().st_size // 2)
    code, errors = run(root, "one")
    assert code == 0
    assert "Damaged file" in errors
    assert "continues at step 3" in errors
    same_end(root, uninterrupted)


@pytest.mark.parametrize(
    ("send", "number"),
    [
        pytest.param(os.killpg, signal.SIGINT, id="Ctrl-C"),
        pytest.param(os.kill, signal.SIGTERM, id="kill", marks=pytest.mark.long),
    ],
)
def test_asked_to_stop_it_saves_and_exits(tmp_path, uninterrupted, send, number):
    root = workspace(tmp_path)
    process = start(root, "one")
    while len(losses(root, "one")) < 4:
        assert process.poll() is None
        time.sleep(0.002)
    send(process.pid, number)
    errors = process.communicate(timeout=300)[1]
    assert process.returncode == 128 + number
    saved = max(complete_iterations(checkpoints(root)))
    assert saved >= 4
    assert f"Stopped at your request: one saved step {saved} of 8; the same command continues" in errors
    assert "Traceback" not in errors
    assert run(root, "one")[0] == 0
    same_end(root, uninterrupted)


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path):
    root = workspace(
        tmp_path, stages={"one": {"optimizer": {"lr": 1e15}, "schedule": {"lr_warmup_iters": 0}}}
    )
    code, errors = run(root, "one")
    assert code == 1
    assert "is not finite" in errors
    code, errors = run(root, "one")
    assert code == 1
    assert "refuses further attempts" in errors


def test_two_attempts_without_progress_stop_the_run(tmp_path):
    root = workspace(tmp_path)
    kill_when(start(root, "one"), lambda: run_directory(root, "one") is not None)  # counts for nothing
    (run_directory(root, "one") / "tensorboard").write_bytes(b"a file where the trainer wants a directory")
    for attempt in (1, 2):
        code, errors = run(root, "one")
        assert code == 1
        assert "ended at step 0 of 8; its last lines" in errors, attempt
    code, errors = run(root, "one")
    assert "2 attempts in a row made no new checkpoint" in errors
    reason = json.loads((run_directory(root, "one") / "stopped.json").read_text())
    assert reason["what"].startswith("2 attempts")
