"""`--directory` is to a verb what it is to Snakemake: work there; recipes and locks stay where they are."""

import json
import os
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from zgcm.cli import verbs  # noqa: F401 - registers the verbs
from zgcm.cli.app import app
from zgcm.errors import ZgcmError

TINY = Path(__file__).parents[2] / "config" / "tiny.yaml"
SOURCE = {"kind": "files", "stage": "pretrain", "category": "general_text"}
TEXT = "A text that is long enough to be kept by every step of the pipeline, or nearly so."


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A recipe here, raw data below runs/mine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ZGCM_CHECKOUT", raising=False)
    Path("runs/mine").mkdir(parents=True)
    Path("runs/mine/notes.jsonl").write_text(json.dumps({"text": TEXT}) + "\n")
    sources = {
        "notes": {**SOURCE, "files": ["notes.jsonl"]},
        "locked": {**SOURCE, "lock": "config/locked.lock", "profile": "./mine.py"},
    }
    recipe = yaml.safe_load(TINY.read_text())
    recipe["sources"] |= sources
    Path("recipe.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
    Path("mine.py").write_text("def step(sample, settings):\n    pass\n\nPROFILE = [step]\n")
    return tmp_path


def call(*arguments):
    options = ["--recipe", "recipe.yaml", "--directory", "runs/mine"]
    return CliRunner().invoke(app, [*arguments, *options], catch_exceptions=False)


def test_files_and_results_lie_below_it_recipes_locks_and_profiles_do_not(checkout, monkeypatch):
    assert "1 records in" in call("clean", "notes", "00000").stdout
    assert (checkout / "runs/mine/results/corpus/notes/00000.jsonl.zst").exists()
    assert "1 shard, " in call("sources", "lock", "locked", "notes.jsonl").stdout
    assert (checkout / "config/locked.lock").exists()
    assert "1 records in" in call("clean", "locked", "00000").stdout
    rows = json.loads(call("sources", "show", "--json").stdout)
    assert {row["source"]: row["shards"] for row in rows}["locked"] == 1
    assert (Path.cwd(), "ZGCM_CHECKOUT" in os.environ) == (checkout, False)
    assert not Path("results").exists()


def test_a_directory_that_is_not_there_is_refused(checkout):
    with pytest.raises(ZgcmError, match=r"no such directory. at: runs/other.*correct --directory"):
        CliRunner().invoke(app, ["status", "--directory", "runs/other"], catch_exceptions=False)
