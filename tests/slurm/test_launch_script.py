"""scripts/launch.sh: who runs where, with which rendezvous; what it refuses; how failures come back."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.slurm.cluster import CHECKOUT

LAUNCH = CHECKOUT / "scripts/launch.sh"
RANKS = Path(__file__).with_name("ranks.py")

pytestmark = pytest.mark.usefixtures("lab")


def job(directory: Path, nodes: int, *command: object) -> tuple[int, str]:
    """Run launch.sh in a job of that many nodes. Returns the job's exit code and output."""
    log = directory / "job.log"
    script = directory / "job.sh"
    script.write_text("#!/bin/sh\nexec " + " ".join(f"'{part}'" for part in (LAUNCH, *command)) + "\n")
    options = [f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1", "--cpus-per-task=2"]
    options += [f"--output={log}"]
    ended = subprocess.run(["sbatch", "--wait", "--quiet", *options, script], cwd=directory, timeout=200)
    return ended.returncode, log.read_text()


@pytest.mark.parametrize("nodes", [1, 2])
def test_ranks_and_master_are_right(nodes: int, tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "zgcm.train.agent", f"--nnodes={nodes}", "--nproc-per-node=2"]
    code, output = job(tmp_path, nodes, nodes, 0, 2, tmp_path / "logs/run", *torchrun, RANKS, tmp_path)
    assert code == 0, output
    seen = sorted(path.read_text() for path in tmp_path.glob("rank_*"))
    # rank, local rank, world size, sum of all ranks over the group, the node that Slurm put the process on
    total = sum(range(2 * nodes))
    assert [line.rsplit(" ", 1)[0] for line in seen] == [
        f"{rank} {rank % 2} {2 * nodes} {total}" for rank in range(2 * nodes)
    ]
    names = [line.rsplit(" ", 1)[1] for line in seen]
    assert len(set(names)) == nodes and names == sorted(names), "rank order is the order of the nodes"
    assert {path.name for path in (tmp_path / "logs").glob("*.log")} == {
        f"run.node_{node}.log" for node in range(nodes)
    }


def test_another_number_of_nodes_is_refused(tmp_path: Path) -> None:
    code, output = job(tmp_path, 2, 3, 0, 1, tmp_path / "run", "true")
    assert code == 78
    assert "has 2 nodes, 3 are needed" in output


def test_outside_a_job_it_is_refused(tmp_path: Path) -> None:
    ended = subprocess.run([LAUNCH, "2", "0", "1", tmp_path / "run", "true"], capture_output=True, text=True)
    assert ended.returncode == 78
    assert "2 nodes need one" in ended.stderr


def test_the_first_failure_is_told_and_ends_the_others(tmp_path: Path) -> None:
    fails = "if [ $PET_NODE_RANK = 1 ]; then echo bad memory; exit 7; else sleep 300; fi"
    code, output = job(tmp_path, 2, 2, 0, 1, tmp_path / "run", "sh", "-c", fails)
    assert code == 7
    assert "node 1 failed first, with exit code 7" in output
    assert "bad memory" in output
