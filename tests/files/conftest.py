import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from plain_texts import texts

from zgcm.cli import verbs  # noqa: F401 - registers the verbs
from zgcm.cli.app import app
from zgcm.config.model import TrainedTokenizer
from zgcm.records import write_records
from zgcm.rundir.manifest import write_manifest
from zgcm.tokens.tokenizer import train_tokenizer


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer of 400 tokens with its manifest."""
    directory = tmp_path_factory.mktemp("tokenizer")
    section = TrainedTokenizer(kind="train", vocab_size=400, sources=["x"])
    write_manifest(directory, **train_tokenizer(section, texts(100), directory))
    return directory


@pytest.fixture
def two_files(tmp_path: Path) -> list[Path]:
    """30 and 20 documents, plain and zst."""
    paths = [tmp_path / "in" / "one.jsonl", tmp_path / "in" / "two.jsonl.zst"]
    for path, (first, count) in zip(paths, ((0, 30), (30, 20)), strict=True):
        path.parent.mkdir(exist_ok=True)
        part = texts(50)[first : first + count]
        write_records(path, [{"id": f"{first + row}", "text": text} for row, text in enumerate(part)])
    return paths


@pytest.fixture
def call() -> Callable[..., Any]:
    """Runs a verb: its exit code, stdout and stderr. A ZgcmError is raised."""

    def run(*arguments: object) -> Any:
        return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)

    return run
