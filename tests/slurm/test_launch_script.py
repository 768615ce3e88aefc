"""scripts/launch.sh: who runs where, with which rendezvous; what it refuses; how failures come back."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.slurm.cluster import CHECKOUT, jobs, slurm, wait_until

LAUNCH = CHECKOUT / "scripts/launch.sh"
RANKS = Path(__file__).with_name("ranks.py")

pytestmark = pytest.mark.usefixtures("lab")


def start(directory: Path, nodes: int, *command: object) -> subprocess.Popen[bytes]:
    """launch.sh in a job of that many nodes; ends with its exit code."""
    script = directory / "job.sh"
    script.write_text("#!/bin/sh\nexec " + " ".join(f"'{part}'" for part in (LAUNCH, *command)) + "\n")
    options = [f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1", "--cpus-per-task=2"]
    options += ["--output=job.log", "--wait", "--quiet"]
    return subprocess.Popen(["sbatch", *options, script], cwd=directory)


def job(directory: Path, nodes: int, *command: object) -> tuple[int, str]:
    """The exit code and the output of such a job."""
    code = start(directory, nodes, *command).wait(timeout=200)
    return code, (directory / "job.log").read_text()


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


SAVES_WHEN_TOLD = """
import os, pathlib, signal

def save(number, frame):
    pathlib.Path(os.environ["PET_NODE_RANK"] + ".saved").touch()
    raise SystemExit(3)

signal.signal(signal.SIGTERM, save)
pathlib.Path(os.environ["PET_NODE_RANK"] + ".ready").touch()
while True:
    signal.pause()
"""


@pytest.mark.parametrize("signal", ["USR1", "USR2"])
@pytest.mark.parametrize("to", [["--batch"], []], ids=["script", "steps"])
def test_the_warning_before_the_time_limit_reaches_the_command_as_term(
    signal: str, to: list[str], tmp_path: Path
) -> None:
    """sbatch --signal=B:USR1 sends it to the script alone, --signal=USR1 to the processes of its steps."""
    (tmp_path / "command.py").write_text(SAVES_WHEN_TOLD)
    process = start(tmp_path, 2, 2, 0, 1, tmp_path / "run", sys.executable, "command.py")
    wait_until(lambda: len(list(tmp_path.glob("*.ready"))) == 2, "both commands wait", 100)
    slurm("scancel", f"--signal={signal}", *to, *jobs(tmp_path))
    assert process.wait(timeout=100) == 3, (tmp_path / "job.log").read_text()
    assert {path.name for path in tmp_path.glob("*.saved")} == {"0.saved", "1.saved"}
