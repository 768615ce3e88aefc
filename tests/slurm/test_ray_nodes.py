"""Ray over two nodes of a real Slurm job, by launch.sh; it ends with the block and leaves no step behind."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.rl.bandit import prepare

pytestmark = pytest.mark.usefixtures("lab")

DRIVER = """
from pathlib import Path

from zgcm.config.resources import Resources
from zgcm.rl import nodes

with nodes.ray_nodes(Resources(nodes=2), Path("logs/ray_nodes"), 180) as address:
    import ray

    ray.init(address=address, log_to_driver=False)
    nodes.wait_for_nodes(2, 180)
    print("nodes", sum(node["Alive"] for node in ray.nodes()))
    ray.shutdown()
print("ended")
"""


def test_a_job_of_two_nodes_becomes_one_ray_cluster(tmp_path: Path) -> None:
    (tmp_path / "driver.py").write_text(DRIVER)
    said = in_a_job(tmp_path, "driver.py")
    assert said.splitlines()[-2:] == ["nodes 2", "ended"], said
    assert node_logs(tmp_path / "logs") == {f"ray_nodes.node_{node}.log" for node in range(2)}


@pytest.mark.long
def test_a_stage_on_two_nodes_ends_as_on_one(tmp_path: Path) -> None:
    """Two engines and two learner processes: which node they are on decides nothing."""
    halves: dict[str, Any] = {"rollout": {"engines": 2}, "learner": {"processes": 2}}
    two, one = tmp_path / "two", tmp_path / "one"
    command = prepare(two, **halves, resources={"nodes": 2})
    in_a_job(two, "-m", "zgcm.cli", *command)
    command = prepare(one, **halves)
    subprocess.run([sys.executable, "-m", "zgcm.cli", *command], check=True, timeout=900)
    rewards, logs = zip(*(log_of(root) for root in (two, one)), strict=True)
    assert rewards[0] == rewards[1] and len(rewards[0].splitlines()) == 4
    assert logs == ({"ray_nodes.node_0.log", "ray_nodes.node_1.log"}, set())


def log_of(root: Path) -> tuple[str, set[str]]:
    stage = root / "results" / "rl_math"
    run = stage / "runs" / json.loads((stage / "done").read_text())["run_id"]
    return (run / "reward.jsonl").read_text(), node_logs(run / "logs")


def node_logs(directory: Path) -> set[str]:
    return {path.name for path in directory.glob("*.node_*.log")}


def in_a_job(directory: Path, *command: str) -> str:
    """What Python prints in a job of two nodes, which must succeed."""
    script = directory / "job.sh"
    script.write_text(f"#!/bin/sh\nexec {shlex.join([sys.executable, *command])}\n")
    options = ["--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--cpus-per-task=1", "--output=job.log"]
    ended = subprocess.run(["sbatch", "--wait", "--quiet", *options, script], cwd=directory, timeout=900)
    said = (directory / "job.log").read_text()
    assert ended.returncode == 0, said
    return said
