"""The report: what it keeps, what it refuses, and how `zgcm train` asks it."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.preflight.conftest import recipe
from tests.train.workspace import write_recipe
from zgcm.cli import verbs  # noqa: F401 - registers the verbs
from zgcm.cli.app import app
from zgcm.errors import ZgcmError
from zgcm.layout import Layout
from zgcm.preflight import report
from zgcm.preflight.answer import Task, failed, not_applicable, ran

PASSED = {"good": lambda task: ran("fine", rate=1.0), "other": lambda task: not_applicable("no GPU")}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "results")


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The parts that the report runs; a test may change them."""
    own = dict(PASSED)
    monkeypatch.setattr(report, "CHECKS", own)
    return own


def test_all_parts_are_written_and_nothing_is_left_behind(parts, layout: Layout) -> None:  # type: ignore[no-untyped-def]
    made = report.run_parts(recipe(), layout, list(parts))
    assert json.loads(layout.preflight.read_text()) == made
    assert [part["status"] for part in made["parts"].values()] == ["ran", "not applicable"]
    assert made["parts"]["good"]["figures"] == {"rate": 1.0}
    assert [path.name for path in layout.root.iterdir()] == ["preflight.json"]
    report.require(recipe(), layout)


@pytest.mark.parametrize("kind", [OSError, RuntimeError])
def test_a_part_that_breaks_has_failed_and_the_others_run(parts, layout: Layout, kind) -> None:  # type: ignore[no-untyped-def]
    def broken(task: Task) -> Any:
        (task.work / "half").write_text("")
        raise kind(5, "Input/output error", "disk")

    made = report.run_parts(recipe(), layout, list(parts.setdefault("bad", broken) and parts))
    assert report.failures(made) == ["bad"]
    assert "Input/output error" in made["parts"]["bad"]["reason"]
    assert made["parts"]["good"]["status"] == "ran"
    with pytest.raises(ZgcmError, match=r"The preflight failed: bad: .*Error.*--only bad"):
        report.require(recipe(), layout)


def test_a_part_run_again_replaces_its_own_answer_only(parts, layout: Layout) -> None:  # type: ignore[no-untyped-def]
    parts["other"] = lambda task: failed("slow")
    report.run_parts(recipe(), layout, list(parts))
    parts["other"] = lambda task: ran("fast now")
    made = report.run_parts(recipe(), layout, ["other"])
    assert {name: part["status"] for name, part in made["parts"].items()} == {"good": "ran", "other": "ran"}
    report.require(recipe(), layout)


def test_answers_of_another_machine_or_recipe_are_not_kept(parts, layout: Layout, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    report.run_parts(recipe(), layout, list(parts))
    wider = recipe(model={"hidden_size": 64})
    assert list(report.run_parts(wider, layout, ["good"])["parts"]) == ["good"]
    report.run_parts(recipe(), layout, list(parts))
    monkeypatch.setattr(report, "machine", lambda: {"gpu": "H200"})
    assert list(report.run_parts(recipe(), layout, ["good"])["parts"]) == ["good"]


def test_execution_keys_that_change_no_need_keep_the_answers() -> None:
    same = report.needs_id(recipe(stages={"one": {"log_interval": 7, "checkpoints": {"save_interval": 1}}}))
    assert same == report.needs_id(recipe())
    assert report.needs_id(recipe(stages={"one": {"seq_length": 64}})) != report.needs_id(recipe())


def test_what_training_refuses(parts, layout: Layout, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ZgcmError, match="there was none"):
        report.require(recipe(), layout)
    report.run_parts(recipe(), layout, ["good"])
    with pytest.raises(ZgcmError, match=r"never run.*other.*--only other"):
        report.require(recipe(), layout)
    report.run_parts(recipe(), layout, list(parts))
    with pytest.raises(ZgcmError, match="other settings"):
        report.require(recipe(model={"hidden_size": 64}), layout)
    here = report.machine()
    monkeypatch.setattr(report, "machine", lambda: {**here, "gpu": "H200"})
    with pytest.raises(ZgcmError, match=r"another kind of machine.*found: gpu H200\. expected: gpu None"):
        report.require(recipe(), layout)


def test_an_unknown_part_is_refused(layout: Layout) -> None:
    with pytest.raises(ZgcmError, match=r"No such part.*found: netwrok.*allreduce"):
        report.run_parts(recipe(), layout, ["netwrok"])


@pytest.mark.parametrize(("bad", "code"), [(False, 0), (True, 1)])
def test_the_verb_shows_a_table_and_ends_with_1_on_a_failure(
    parts, bad: bool, code: int, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    if bad:
        parts["other"] = lambda task: failed("too slow")
    options = [
        "--recipe",
        str(write_recipe(tmp_path / "recipe.yaml")),
        "--directory",
        str(tmp_path),
    ]
    shown = CliRunner().invoke(app, ["preflight", *options])
    assert shown.exit_code == code, shown.output
    assert (
        "preflight failed: other" if bad else "preflight passed: 1 part ran, 1 do not apply"
    ) in shown.output
    as_json = CliRunner().invoke(app, ["preflight", "--json", *options])
    assert json.loads(as_json.stdout)["parts"]["good"]["line"] == "fine"


def test_training_asks_where_the_recipe_says_so(tmp_path: Path) -> None:
    options = ["--directory", str(tmp_path), "--recipe"]
    asks = write_recipe(tmp_path / "asks.yaml", preflight=True)
    refused = CliRunner().invoke(app, ["train", "one", *options, str(asks)])
    assert isinstance(refused.exception, ZgcmError)
    assert "preflight: true" in str(refused.exception) and "zgcm preflight" in str(refused.exception)
    silent = CliRunner().invoke(app, ["train", "one", *options, str(write_recipe(tmp_path / "not.yaml"))])
    assert "preflight" not in str(silent.exception)


def test_parts_that_never_ran_are_named(parts, layout: Layout) -> None:  # type: ignore[no-untyped-def]
    from zgcm.cli.preflight import last_line

    some = report.run_parts(recipe(), layout, ["good"])
    assert last_line(some, []) == "preflight unfinished: 1 part ran, 0 do not apply; never run here: other"
    assert last_line(report.run_parts(recipe(), layout, ["other"]), []).startswith("preflight passed: 1 part")
