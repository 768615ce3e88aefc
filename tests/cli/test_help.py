"""The help of every verb, and the hints that name one."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from zgcm.cli import verbs
from zgcm.cli.app import app
from zgcm.config.load import load_recipe
from zgcm.config.rl import RLStage
from zgcm.config.stages import TrainStage
from zgcm.errors import ZgcmError

ROOT = Path(__file__).parents[2]


def said(*arguments: str) -> str:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"}).output


def test_every_verb_stands_under_one_heading() -> None:
    listed = [verb for panel in verbs.PANELS.values() for verb in panel]
    assert len(listed) == len(set(listed)) == len(app.registered_commands)
    overview = said("--help")
    places = [overview.index(heading) for heading in verbs.PANELS]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("verb", "usage"),
    [
        (["train"], "zgcm train [OPTIONS] STAGE"),
        (["id"], "id [OPTIONS] [STEP] [NAME]"),
        (["index"], "index [OPTIONS] SOURCE SHARD | FILE..."),
        (["sources", "lock"], "lock [OPTIONS] SOURCE [PATH]..."),
    ],
)
def test_usage_lines(verb: list[str], usage: str) -> None:
    first = said(*verb, "--help").strip().splitlines()[0].strip()
    assert first.endswith(usage.removeprefix("zgcm "))


def test_help_shows_defaults_in_brackets() -> None:
    assert "[shuffled]" in said("mix", "--help") and "--dry-run" in said("run", "--help")
    assert "config/tiny.yaml" in said("run", "--help")


def test_a_stage_of_another_kind_names_the_verb_for_it() -> None:
    recipe = load_recipe([ROOT / "config/tiny.yaml"])
    rl, sft = next(iter(recipe.rl_stages())), "sft"
    for kind, name, verb in ((TrainStage, rl, "rl"), (RLStage, sft, "train")):
        with pytest.raises(ZgcmError) as error:
            recipe.stage_of(kind, name, "x")
        assert error.value.hint == f"this one: zgcm {verb} {name}"
    with pytest.raises(ZgcmError) as error:
        recipe.stage_of(TrainStage, "nothing", "x")
    assert error.value.hint == ""


def test_id_of_a_stage_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert said("id", "sft") == said("id", "train", "sft")


def test_status_before_the_first_run_says_how_to_begin(tmp_path: Path) -> None:
    output = said("status", "-r", str(ROOT / "config/tiny.yaml"), "-d", str(tmp_path))
    assert "Nothing has run here yet" in output and "zgcm run -n" in output


def test_converting_from_megatron_needs_a_config_and_says_so_first(tmp_path: Path) -> None:
    for place, message in ((tmp_path, "so --config must"), (tmp_path / "none", "no such directory")):
        result = CliRunner().invoke(app, ["convert", str(place), "--output", str(tmp_path / "out")])
        assert isinstance(result.exception, ZgcmError) and message in str(result.exception)
