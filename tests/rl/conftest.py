import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from bandit import make_policy


@pytest.fixture(scope="session")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("policy") / "export"
    make_policy(directory)
    return directory


@pytest.fixture(scope="module", autouse=True)
def environment_as_before() -> Iterator[None]:
    """vLLM and Ray set variables for every process to come; a later test's trainer is none of theirs."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)
