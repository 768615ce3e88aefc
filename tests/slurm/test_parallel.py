"""A layer split over two nodes of a real Slurm job."""

from pathlib import Path

from tests.slurm.cluster import ITERATIONS, finish, losses, result, start, workspace
from tests.train.commands import run


def test_tensor_parallelism_over_two_nodes(lab: Path, tmp_path: Path) -> None:
    """It computes what two processes on one machine compute, digit for digit."""
    split = {"parallel": {"tensor": 2}}
    two, one = workspace(tmp_path / "two", **split), tmp_path / "one"
    finish(start(two), two)
    workspace(one, resources={"nodes": 1, "processes_per_node": 2}, **split)
    code, errors = run(one, "one")
    assert code == 0, errors
    assert result(one) == result(two)
    assert len(losses(two)) == ITERATIONS
