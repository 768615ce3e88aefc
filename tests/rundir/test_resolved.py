"""The resolved recipe and the stamp of a results directory."""

from pathlib import Path

import pytest

from tests.workflow.jobs import CHECKOUT
from zgcm.config.load import load_recipe, read_mapping
from zgcm.errors import ZgcmError
from zgcm.identity import recipe_id
from zgcm.rundir.resolved import resolve
from zgcm.rundir.stamp import check_stamp, write_stamp


@pytest.mark.parametrize("name", ["tiny", "zgcm-7b"])
def test_the_resolved_recipe_is_the_recipe(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CHECKOUT)
    path = CHECKOUT / f"config/{name}.yaml"
    recipe, resolved = resolve(read_mapping(path), CHECKOUT, tmp_path)
    monkeypatch.chdir(tmp_path)  # verbs of `--directory` read it from elsewhere
    again = load_recipe([resolved])
    assert list(again.mixes) == list(recipe.mixes), "the order of mixes is part of the recipe"
    for stage in recipe.stages:
        step = "rl" if recipe.stages[stage].kind == "rl" else "train"
        assert recipe_id(again, step, stage) == recipe_id(recipe, step, stage)


def test_its_file_is_named_by_its_content(tmp_path: Path) -> None:
    config = read_mapping(CHECKOUT / "config/tiny.yaml")
    first = resolve(config, CHECKOUT, tmp_path)[1]
    assert resolve(config, CHECKOUT, tmp_path)[1] == first
    assert resolve({**config, "description": "another"}, CHECKOUT, tmp_path)[1] != first
    assert len(list((tmp_path / ".recipes").iterdir())) == 2


def test_a_stamp_keeps_other_recipes_out(tmp_path: Path) -> None:
    stamp = tmp_path / "recipe.json"
    check_stamp(stamp, "tiny")
    write_stamp(stamp, "tiny", Path("results/.recipes/x.json"))
    check_stamp(stamp, "tiny")
    with pytest.raises(ZgcmError) as error:
        check_stamp(stamp, "zgcm-7b")
    assert (error.value.found, error.value.expected) == ("tiny", "zgcm-7b")
    assert "--directory" in error.value.hint


def test_missing_files_of_yours_are_named_with_where_they_were_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    notes = {"kind": "files", "files": ["notes.jsonl"], "stage": "pretrain", "category": "general_text"}
    config = read_mapping(CHECKOUT / "config/tiny.yaml")
    config["sources"]["notes"] = notes
    with pytest.raises(ZgcmError, match=f"sources.notes.files: {tmp_path / 'notes.jsonl'}"):
        resolve(config, CHECKOUT, tmp_path / "results")
    (tmp_path / "notes.jsonl").touch()
    resolve(config, CHECKOUT, tmp_path / "results")


def test_evaluation_files_lie_below_the_directory_or_in_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "exam.jsonl").write_text('{"question": "q"}\n')
    config = read_mapping(CHECKOUT / "config/tiny.yaml")
    ours = "config/evaluations/word_problems.jsonl"
    config["mixes"]["pretrain_1t"]["decontaminate"] = {"against": ["exam.jsonl", ours]}
    recipe, _ = resolve(config, CHECKOUT, tmp_path / "results")
    section = recipe.mixes["pretrain_1t"].decontaminate
    assert section is not None and section.against == ["exam.jsonl", str(CHECKOUT / ours)]
