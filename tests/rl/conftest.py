from pathlib import Path

import pytest
from bandit import make_policy


@pytest.fixture(scope="session")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("policy") / "export"
    make_policy(directory)
    return directory
