"""A small recipe, and a task of it in a directory of the test's own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.train.workspace import RECIPE
from zgcm.config.load import load_recipe, validate_recipe
from zgcm.config.recipe import Recipe, deep_merge
from zgcm.layout import Layout
from zgcm.preflight.answer import Task

CHECKOUT = Path(__file__).parents[2]
GPU = {"gpus": 8, "gpu": "NVIDIA H100 80GB HBM3", "compute_capability": "9.0", "driver": "580.65"}
NO_GPU = {"gpus": 0, "gpu": None, "compute_capability": None, "driver": None}
ON_GPUS = {
    **{"engine": "transformer_engine", "attention_backend": "flash", "fp8": {}},
    "global_batch_size": 16,
    "resources": {"gpus_per_node": 8, "processes_per_node": 8},
}
"""A stage's keys; merge them into `stages.one`."""


def recipe(**changes: Any) -> Recipe:
    return validate_recipe(deep_merge(RECIPE, changes), where="tests")


@pytest.fixture(scope="session")
def published() -> Recipe:
    """The 7B recipe."""
    return load_recipe([CHECKOUT / "config/zgcm-7b.yaml"])


@pytest.fixture
def task(tmp_path: Path) -> Callable[..., Task]:
    def make(**changes: Any) -> Task:
        work = tmp_path / "work"
        work.mkdir()
        return Task(recipe(**changes), Layout(tmp_path / "results"), work, tmp_path / "logs")

    return make
