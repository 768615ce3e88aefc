"""Every small file that a stage reads or leaves, damaged in every way: the next `zgcm train` says which file
and what to do, or goes on as if it were whole. Never a traceback."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.train.workspace import make
from zgcm.config.recipe import Recipe
from zgcm.errors import ZgcmError
from zgcm.io import write_json
from zgcm.layout import Layout
from zgcm.rundir.manifest import write_manifest
from zgcm.train import losslog, run
from zgcm.train.launch import Outcome
from zgcm.train.validate import validate

DAMAGE = {
    "empty": b"",
    "cut": None,
    "null": b"null",
    "list": b"[]",
    "object": b"{}",
    "text": b'"x"\n',
    "number": b"NaN\n",
    "bytes": b"\xff\xfe\x00",
}
SPIKE = {"first": 4, "last": 5, "what": "loss 9 > 8"}
KEPT: dict[str, Any] = {
    "spike.json": SPIKE,
    "spikes.json": [{**SPIKE, "back_to": 3}],
    "stopped.json": {"what": "because"},
    "owner.json": {"host": "elsewhere", "pid": 1, "started": 1.0, "slurm_job_id": None, "token": "x"},
    "run.json": {"attempts": []},
}
INPUTS = ("tokenizer/manifest.json", "tokenizer/tokenizer.json", "mixes/first/00000.json")


def damage(path: Path, how: str) -> None:
    whole, bad = path.read_bytes(), DAMAGE[how]
    path.write_bytes(whole[: len(whole) // 2] if bad is None else bad)


def trainer(resources: Any, directory: Path, token: str, log: Path) -> Outcome:
    """Saves iteration 8 as the real one does: losses first."""
    with (directory / losslog.LOSS).open("a") as losses:
        for step in range(4, 9):
            losses.write(json.dumps({"iteration": step, "loss": 1.0, "grad_norm": 1.0}) + "\n")
    save(directory, 8)
    return Outcome(0, False, [])


def save(directory: Path, iteration: int) -> None:
    path = directory / "checkpoints" / f"iter_{iteration:07d}"
    path.mkdir(parents=True)
    write_manifest(path, iteration=iteration, consumed_samples=4 * iteration, weights_digest="w")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("whole")
    make(root)
    return root


@pytest.fixture
def place(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Recipe, Layout, Path]:
    """A run of stage `one` that was interrupted after its checkpoint at iteration 3."""
    monkeypatch.setattr(run, "launch", trainer)
    shutil.copytree(whole, tmp_path / "results")
    recipe, _ = make(tmp_path / "unused")
    layout = Layout(tmp_path / "results")
    directory = layout.runs("one") / "x"
    monkeypatch.setattr(run.identity, "run_id", lambda *_: "x")
    save(directory, 3)
    rows = [{"iteration": step, "loss": 1.0, "grad_norm": 1.0} for step in (1, 2, 3)]
    (directory / losslog.LOSS).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return recipe, layout, directory


def told(action: Callable[[], Any], file: Path) -> bool:
    """Whether it went through; a refusal must name the file and say what to do."""
    try:
        action()
    except ZgcmError as error:
        assert file.name in str(error)
        assert "to do:" in str(error)
        return False
    return True


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("name", KEPT)
def test_what_a_run_keeps(place: tuple[Recipe, Layout, Path], name: str, how: str) -> None:
    recipe, layout, directory = place
    write_json(directory / name, KEPT[name])
    damage(directory / name, how)
    goes_on = told(lambda: run.train(recipe, layout, "one"), directory / name)
    assert goes_on == ((name, how) == ("spikes.json", "list"))


@pytest.mark.parametrize("how", DAMAGE)
def test_losses_that_are_gone_are_not_left_out_in_silence(
    place: tuple[Recipe, Layout, Path], how: str
) -> None:
    recipe, layout, directory = place
    damage(directory / losslog.LOSS, how)
    assert not told(lambda: run.train(recipe, layout, "one"), directory / losslog.LOSS)
    shutil.rmtree(directory / "checkpoints")  # what the message says
    (directory / losslog.LOSS).unlink()
    with pytest.raises(ZgcmError, match="iteration 1;"):  # this trainer begins at 4
        run.train(recipe, layout, "one")


@pytest.mark.parametrize("how", DAMAGE)
def test_damage_after_the_checkpoint_is_cut_off(place: tuple[Recipe, Layout, Path], how: str) -> None:
    recipe, layout, directory = place
    with (directory / losslog.LOSS).open("ab") as losses:
        losses.write((DAMAGE[how] or b"{") + b"\n")
    (directory / losslog.SPEED).write_bytes(DAMAGE[how] or b"{")
    assert run.train(recipe, layout, "one")["iteration"] == 8
    assert [row["iteration"] for row in losslog.read_losses(directory)] == list(range(1, 9))


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("name", INPUTS)
def test_what_a_stage_reads(place: tuple[Recipe, Layout, Path], name: str, how: str) -> None:
    recipe, layout, _ = place
    damage(layout.root / name, how)
    assert not told(lambda: run.train(recipe, layout, "one"), layout.root / name)
    assert any(
        Path(name).name in found["problem"] for found in validate(recipe, [], layout, "one")["problems"]
    )


@pytest.mark.parametrize("how", DAMAGE)
def test_the_stage_before(place: tuple[Recipe, Layout, Path], how: str) -> None:
    recipe, layout, _ = place
    run.train(recipe, layout, "one")
    damage(layout.done("one"), how)
    assert not told(lambda: run.train(recipe, layout, "two"), layout.done("one"))
    assert any(
        str(layout.done("one")) in found["problem"]
        for found in validate(recipe, [], layout, "two")["problems"]
    )
    run.train(recipe, layout, "one")  # writes it again
    assert validate(recipe, [], layout, "two")["problems"] == []


@pytest.mark.parametrize("how", DAMAGE)
def test_the_manifest_of_a_checkpoint(place: tuple[Recipe, Layout, Path], how: str) -> None:
    """The checkpoint before it is taken; here there is none, and this trainer's losses begin too late."""
    recipe, layout, directory = place
    damage(directory / "checkpoints/iter_0000003/manifest.json", how)
    with pytest.raises(ZgcmError, match=losslog.LOSS):
        run.train(recipe, layout, "one")
    assert (directory / "checkpoints/damaged_iter_0000003_1").is_dir()
