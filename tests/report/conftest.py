"""One complete and one unfinished results directory of the tiny recipe, made once."""

from pathlib import Path

import pytest
from fake_results import fake_results

from zgcm.config.load import load_recipe
from zgcm.config.recipe import Recipe
from zgcm.layout import Layout

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def tiny() -> Recipe:
    return load_recipe([ROOT / "config/tiny.yaml"])


@pytest.fixture(scope="session")
def complete(tiny: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Layout:
    return fake_results(tiny, tmp_path_factory.mktemp("complete") / "results")


@pytest.fixture
def unfinished(tiny: Recipe, tmp_path: Path) -> Layout:
    """Stopped by a kill in the middle of midtrain_64k, after 3 of its 8 steps."""
    return fake_results(tiny, tmp_path / "results", upto="midtrain_64k", steps=3)
