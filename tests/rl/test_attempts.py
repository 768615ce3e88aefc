import signal
from pathlib import Path

import pytest

from zgcm.errors import ZgcmError
from zgcm.io import read_json
from zgcm.rl import attempts, recover
from zgcm.stopping import Stopped


def fail(run: Path, steps: list[int]) -> None:
    with pytest.raises(ZgcmError, match="broken"), attempts.attempt(run, lambda: steps.pop(0)):
        raise ZgcmError("broken")


def test_two_fruitless_failures_stop_the_run(tmp_path: Path) -> None:
    fail(tmp_path, [0, 3])
    fail(tmp_path, [3, 3])
    assert not (tmp_path / "stopped.json").exists()
    fail(tmp_path, [3, 3])
    with (
        pytest.raises(ZgcmError, match="further ones are refused: broken"),
        attempts.attempt(tmp_path, lambda: 3),
    ):
        raise AssertionError("must not run")
    (tmp_path / "stopped.json").unlink()
    with attempts.attempt(tmp_path, lambda: 4, recipe_id="x") as record:
        record["seconds"] = {"rollout": 1.0}
    written = read_json(tmp_path / "run.json")
    assert written["recipe_id"] == "x"
    assert [one.get("error", "") for one in written["attempts"]] == ["broken."] * 3 + [""]


def test_a_killed_or_stopped_attempt_does_not_count() -> None:
    failed = {"ended": 1, "error": "x", "from_step": 1, "to_step": 1}
    asked = {"ended": 1, "stopped_on_request": True, "from_step": 1, "to_step": 1}
    assert attempts.fruitless([failed, asked, failed]) == 2
    assert attempts.fruitless([failed, {"from_step": 1}, failed]) == 2
    assert attempts.fruitless([failed, {**failed, "to_step": 2}]) == 0


def test_a_stop_on_request_is_no_error(tmp_path: Path) -> None:
    for _ in range(3):
        with pytest.raises(Stopped), attempts.attempt(tmp_path, lambda: 0):
            raise Stopped(signal.SIGINT, "now")
    written = read_json(tmp_path / "run.json")["attempts"]
    assert [one["stopped_on_request"] for one in written] == [True] * 3
    assert not (tmp_path / "stopped.json").exists()


def test_metrics_are_cut_back_to_the_recover_point(tmp_path: Path) -> None:
    path = tmp_path / "reward.jsonl"
    for step in (1, 2, 3):
        recover.append(path, {"step": step, "x": 0.1})
    with path.open("a") as stream:
        stream.write('{"step": 4, "x"')
    recover.cut_back(path, 2)
    assert path.read_text() == '{"step": 1, "x": 0.1}\n{"step": 2, "x": 0.1}\n'


def test_points_without_manifest_do_not_exist_and_old_ones_go(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        recover.save(tmp_path, step, lambda directory: directory.mkdir(), None, keep=2)
    assert [path.name for path in sorted((tmp_path / "recover").iterdir())] == ["step_000002", "step_000003"]
    (tmp_path / "recover" / "step_000004").mkdir()
    assert recover.newest_step(tmp_path) == 3
    assert recover.load(recover.newest(tmp_path)) == (3, None)
