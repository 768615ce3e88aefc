"""A Slurm of the tests' own. Where it cannot start, every test fails with the reason: none is skipped."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.slurm import cluster

LAB = cluster.CHECKOUT / "scripts/slurm-lab"
NODES = 4  # two for a job, two that take its place


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/slurm/" in item.path.as_posix():
            item.add_marker(pytest.mark.slurm)


@contextmanager
def slurm_lab(directory: Path, *options: str) -> Iterator[Path]:
    """Commands of a started Slurm come first in PATH within the block."""
    path = os.environ["PATH"]
    try:
        call_lab(directory, "start", *options)
        os.environ["PATH"] = f"{directory}/bin:{path}"
        yield directory
    finally:
        os.environ["PATH"] = path
        call_lab(directory, "stop")


def call_lab(directory: Path, *command: str) -> None:
    environment = {**os.environ, "SLURM_LAB_DIR": str(directory), "SLURM_LAB_NODES": str(NODES)}
    ended = subprocess.run([LAB, *command], env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def restart_nodes(directory: Path) -> None:
    """Start every slurmd that was killed."""
    call_lab(directory, "start")


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    options = os.environ.get("SLURM_LAB_OPTIONS", "").split()
    with slurm_lab(tmp_path_factory.mktemp("slurm") / "lab", *options) as directory:
        yield directory


@pytest.fixture(scope="session")
def undisturbed(lab: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], bytes]:
    """Losses and `done` of a two-node stage that nothing happened to."""
    root = cluster.workspace(tmp_path_factory.mktemp("undisturbed"))
    cluster.finish(cluster.start(root), root)
    losses, done = cluster.result(root)
    assert len(losses) == cluster.ITERATIONS
    assert len(cluster.attempts(root)) == 1
    return losses, done
