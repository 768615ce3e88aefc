"""Recipes for these tests: the committed ones, and overlays written on the spot."""

from collections.abc import Callable
from pathlib import Path

import pytest

from zgcm.config.load import load_recipe
from zgcm.config.recipe import Recipe
from zgcm.errors import ZgcmError

ROOT = Path(__file__).parents[2]
TINY = ROOT / "config/tiny.yaml"


@pytest.fixture
def overlay(tmp_path: Path) -> Callable[..., Recipe]:
    """Load a recipe (tiny by default) with an overlay given as YAML text."""

    def load(text: str, recipe: Path = TINY) -> Recipe:
        path = tmp_path / "overlay.yaml"
        path.write_text(text)
        return load_recipe([recipe, path])

    return load


@pytest.fixture
def refused(overlay: Callable[..., Recipe]) -> Callable[..., str]:
    """The message with which an overlay is refused."""

    def load(text: str, recipe: Path = TINY) -> str:
        with pytest.raises(ZgcmError) as caught:
            overlay(text, recipe)
        return caught.value.paragraph()

    return load
