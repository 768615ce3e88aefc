"""What people read at a terminal is no wider than it is."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from zgcm.cli import verbs  # noqa: F401 - registers the verbs
from zgcm.cli.app import app
from zgcm.cli.dryrun import Job, lines
from zgcm.config.load import load_recipe
from zgcm.layout import Layout

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("verb", ["check", "plan", "status"])
@pytest.mark.parametrize("recipe", ["tiny", "zgcm-7b"])
def test_no_line_is_wider_than_the_terminal(
    verb: str, recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(ROOT)
    answer = CliRunner().invoke(app, [verb, "-r", f"config/{recipe}.yaml", "-d", str(tmp_path)])
    assert answer.exit_code == 0, answer.exception
    # a path is not broken, so that it can be copied
    assert not [line for line in answer.output.splitlines() if len(line) > 80 and str(tmp_path) not in line]


def test_a_dry_run_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, why = load_recipe([ROOT / "config/tiny.yaml"]), "changed: optimizer.lr, schedule.train_iters"
    jobs = [
        Job("clean", "Clean shard 00000 of demo_code", "missing output", {"shard": "00000"}),
        Job("train", "Train midtrain_64k, which has a long name", why, {"stage": "midtrain_64k"}),
    ]
    monkeypatch.setenv("COLUMNS", "80")
    said = lines(jobs, recipe, Layout(Path("/results")))
    assert max(map(len, said)) <= 80
    assert said[0] == f"{'Clean shard 00000 of demo_code':<36}  missing output"
    assert said[1:3] == ["Train midtrain_64k, which has a long name", f"    {why}"]
