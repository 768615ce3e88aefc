"""One real run of the whole pipeline, shared by the tests that ask what a change makes stale."""

import json
import random
import subprocess
import sys
from pathlib import Path
from pydoc_data.topics import topics

import pytest

from tests.workflow.jobs import CHECKOUT, call

MINI = ["--configfile", CHECKOUT / "config/tiny.yaml", CHECKOUT / "tests/recipes/mini.yaml"]


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
    """Passages of Python's reference pages: ordinary prose, so that a curriculum finds no outliers."""
    words, chance = " ".join(topics.values()).split(), random.Random(0)
    with path.open("w") as stream:
        for row in range(900):
            start, length = chance.randrange(len(words) - 300), chance.randrange(150, 300)
            text = " ".join(words[start : start + length])
            stream.write(json.dumps({"id": f"user-{row}", "text": text}) + "\n")
    assert path.stat().st_size > 1_000_000  # Snakemake compares the content of smaller files only
