import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from token_workspace import document, make_recipe, sum_conversation, words, write_source

from zgcm.config.recipe import Recipe
from zgcm.layout import Layout
from zgcm.tokens.index import index_shard
from zgcm.tokens.tokenizer import make_tokenizer

MIXES = {
    "text_mix": {"sources": {"prose": 2, "code": 1}, "tokens": 3000, "shards": 2},
    "sft": {"kind": "packed", "sources": {"talk": 1}, "sequence_length": 128},
}


@pytest.fixture(scope="session")
def indexed_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recipe, Path]:
    """Three sources, a tokenizer of 400, and every index; about a second."""
    layout = Layout(tmp_path_factory.mktemp("results"))
    recipe = make_recipe({"prose": 2, "code": 1, "talk": 1}, MIXES, categories={"code": "code"})
    rng = random.Random(5)
    write_source(
        layout,
        "prose",
        [[document(words(rng, rng.randint(0, 60)), f"p{s}-{i}") for i in range(50)] for s in range(2)],
    )
    write_source(
        layout, "code", [[document(f"x{i} = [{words(rng, 9)!r}]\n" * 3, f"c{i}") for i in range(40)]]
    )
    sums = [sum_conversation(a, b, thinking=a % 2 == 0) for a in range(10, 18) for b in range(10, 18)]
    write_source(layout, "talk", [sums])
    make_tokenizer(recipe, layout)
    for source, shard in (("prose", "00000"), ("prose", "00001"), ("code", "00000"), ("talk", "00000")):
        index_shard(recipe, layout, source, shard)
    return recipe, layout.root


@pytest.fixture
def workspace(indexed_once: tuple[Recipe, Path], tmp_path: Path) -> tuple[Recipe, Layout]:
    """A copy that a test may change."""
    recipe, root = indexed_once
    shutil.copytree(root, tmp_path / "results")
    return recipe, Layout(tmp_path / "results")


@pytest.fixture(scope="session")
def tokenizer_directory(indexed_once: tuple[Recipe, Path]) -> Path:
    return Layout(indexed_once[1]).tokenizer


@pytest.fixture
def write_template(tokenizer_directory: Path, tmp_path: Path) -> Callable[[str], Path]:
    """A copy of the tokenizer directory with another chat template."""

    def write(template: str) -> Path:
        directory = tmp_path / "tokenizer"
        shutil.copytree(tokenizer_directory, directory)
        (directory / "chat_template.jinja").write_text(template)
        return directory

    return write
