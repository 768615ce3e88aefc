"""One real run of the whole pipeline, shared by the tests that ask what a change makes stale."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workflow.jobs import CHECKOUT, call

MINI = ["--configfile", CHECKOUT / "config/tiny.yaml", CHECKOUT / "tests/recipes/mini.yaml"]
WORDS = "the river runs past old stone houses where people read letters about weather and bread"


def run(directory: Path) -> subprocess.CompletedProcess[str]:
    """`zgcm run` on the mini recipe."""
    recipe = [part for path in MINI[1:] for part in ("--recipe", path)]
    return call([sys.executable, "-m", "zgcm.cli", "run", "--directory", directory, "--cores", "2", *recipe])


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which everything is made, from a raw shard of over 1 MB to the RL-trained model."""
    directory = tmp_path_factory.mktemp("mini")
    write_user_text(directory / "user_text.jsonl")
    done = run(directory)
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


def write_user_text(path: Path) -> None:
    chance = random.Random(0)
    with path.open("w") as stream:
        for row in range(900):
            words = " ".join(chance.choices(WORDS.split(), k=220))
            stream.write(json.dumps({"id": f"user-{row}", "text": f"Note {row}. {words}."}) + "\n")
    assert path.stat().st_size > 1_000_000  # Snakemake compares the content of smaller files only
