"""What people read at a terminal is no wider than it is."""

import contextlib
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from zgcm.cli import verbs  # noqa: F401 - registers the verbs
from zgcm.cli.app import app
from zgcm.cli.dryrun import Job, lines
from zgcm.config.load import load_recipe
from zgcm.layout import Layout
from zgcm.records import write_records
from zgcm.tokens.indexed import write_indexed

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


def test_looks_at_data_neither(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw, prefix = tmp_path / "raw.jsonl", tmp_path / "index"
    rows = [
        {"id": f"{n}", "a_long_name_of_a_field": n, "text": "A word or two <b> more. " * 30} for n in range(3)
    ]
    write_records(raw, rows)
    with write_indexed(prefix, np.dtype(np.uint16)) as (writer, _):
        writer.append(np.arange(900, dtype=np.uint16), np.array([900]))
    (tmp_path / "results").mkdir()
    monkeypatch.setenv("COLUMNS", "80")
    for verb in (
        ["profile", raw], ["inspect", prefix], ["preflight", "--only", "versions", "-d", tmp_path],
        ["sources", "show"], ["sources", "show", "-r", ROOT / "config/zgcm-7b.yaml"],
    ):  # fmt: skip
        monkeypatch.chdir(ROOT)
        answer = CliRunner().invoke(app, list(map(str, verb)))
        assert answer.exit_code == 0, answer.exception
        lines = answer.stdout.splitlines()
        assert not [line for line in lines if len(line) > 80 and str(tmp_path) not in line], verb


def test_what_a_sandbox_holds_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    proof = {f"property_{number}": True for number in range(40)}
    monkeypatch.setattr("zgcm.rl.sandbox.attest.attest", lambda jail: {**proof, "cgroup": True})
    monkeypatch.setattr("zgcm.rl.sandbox.image.image", lambda: contextlib.nullcontext())
    monkeypatch.setattr("zgcm.rl.sandbox.jail.jail", lambda *parts: None)
    monkeypatch.setenv("COLUMNS", "80")
    said = CliRunner().invoke(app, ["sandbox", "attest"]).stdout
    assert max(map(len, said.splitlines())) <= 80 and "property_39" in said


def test_sizes_of_sources_are_for_people_and_for_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    show = ["sources", "show", "-r", "config/zgcm-7b.yaml"]
    assert "  600.0 GB  " in CliRunner().invoke(app, show).stdout
    assert json.loads(CliRunner().invoke(app, [*show, "--json"]).stdout)[0]["bytes"] == 600_000_000_000
    demo = json.loads(CliRunner().invoke(app, ["sources", "show", "--json"]).stdout)[0]
    assert demo["bytes"] is None and demo["shards"] == 2


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
