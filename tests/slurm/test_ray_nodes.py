"""Ray over two nodes of a real Slurm job, by launch.sh; it ends with the block and leaves no step behind."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("lab")

DRIVER = """
from pathlib import Path

from zgcm.config.stages import Resources
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
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/sh\nexec '{sys.executable}' driver.py\n")
    options = ["--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--cpus-per-task=1", "--output=job.log"]
    ended = subprocess.run(["sbatch", "--wait", "--quiet", *options, script], cwd=tmp_path, timeout=400)
    said = (tmp_path / "job.log").read_text()
    assert ended.returncode == 0, said
    assert said.splitlines()[-2:] == ["nodes 2", "ended"], said
    assert {path.name for path in (tmp_path / "logs").glob("*.node_*.log")} == {
        f"ray_nodes.node_{node}.log" for node in range(2)
    }
