"""One complete and one unfinished results directory of the tiny recipe, made once."""

import shutil
from pathlib import Path

import pytest
from fake_results import fake_results

from zgcm.config.load import load_recipe
from zgcm.config.recipe import Recipe
from zgcm.layout import Layout

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def recipe_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The tiny recipe with stage lengths of these tests' own: tuning the recipe breaks none of them."""
    lengths = tmp_path_factory.mktemp("recipe") / "lengths.yaml"
    lengths.write_text(
        "stages: {pretrain_1t: {schedule: {train_iters: 100}}, pretrain_3p2t: {schedule: {train_iters: 250}},"
        " sft: {schedule: {epochs: 1}}}"
    )
    return [ROOT / "config/tiny.yaml", lengths]


@pytest.fixture(scope="session")
def tiny(recipe_files: list[Path]) -> Recipe:
    return load_recipe(recipe_files)


@pytest.fixture(scope="session")
def complete(tiny: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Layout:
    return fake_results(tiny, tmp_path_factory.mktemp("complete") / "results")


@pytest.fixture(scope="session")
def killed(tiny: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Layout:
    return fake_results(tiny, tmp_path_factory.mktemp("killed") / "results", upto="midtrain_64k", steps=3)


@pytest.fixture
def unfinished(killed: Layout, tmp_path: Path) -> Layout:
    """Stopped by a kill in the middle of midtrain_64k, after 3 of its 8 steps. A copy, free to change."""
    shutil.copytree(killed.root, tmp_path / "results")
    return Layout(tmp_path / "results")
