"""What happens to jobs on a cluster, each done to a two-node stage of a real workflow on a real Slurm.

The end is that of a run that nothing happened to, digit for digit, and its checkpoints never had two writers.
"""

import contextlib
import os
import signal
import subprocess
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from tests.slurm import cluster
from tests.slurm.cluster import attempts, finish, freeze, jobs, slurm, start, training, wait_until, workspace
from tests.slurm.conftest import restart_nodes

End = tuple[list[str], bytes]


def same_end(root: Path, undisturbed: End, tries: int = 2) -> None:
    assert cluster.result(root) == undisturbed
    made = attempts(root)
    assert len(made) == tries, made
    assert made[-1]["to_iteration"] == cluster.ITERATIONS
    for earlier, later in pairwise(made):
        assert earlier.get("ended", 0) <= later["started"], "two writers at once"


def saved_when_it_was_told_to_stop(root: Path) -> None:
    first, second = attempts(root)[:2]
    assert first["stopped_on_request"]
    assert first["to_iteration"] == second["from_iteration"] >= cluster.SAVE_INTERVAL


def test_cancelled(lab: Path, undisturbed: End, tmp_path: Path) -> None:
    process = start(workspace(tmp_path))
    slurm("scancel", training(tmp_path))
    finish(process, tmp_path)
    same_end(tmp_path, undisturbed)
    saved_when_it_was_told_to_stop(tmp_path)


def test_a_node_set_down(lab: Path, undisturbed: End, tmp_path: Path) -> None:
    process = start(workspace(tmp_path))
    job = training(tmp_path)
    last = nodes_of(job)[-1]
    slurm("scontrol", "update", f"nodename={last}", "state=down", "reason=test")
    try:
        finish(process, tmp_path)
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):  # its slurmd may have brought it back
            slurm("scontrol", "update", f"nodename={last}", "state=resume")
    same_end(tmp_path, undisturbed)


@pytest.mark.parametrize(
    "place", [pytest.param(0, id="first"), pytest.param(1, id="second", marks=pytest.mark.long)]
)
def test_a_node_dies(lab: Path, undisturbed: End, tmp_path: Path, place: int) -> None:
    """Its slurmd and everything that ran on it."""
    process = start(workspace(tmp_path))
    job = training(tmp_path)
    kill_node(lab, nodes_of(job)[place])
    try:
        finish(process, tmp_path)
    finally:
        restart_nodes(lab)
    same_end(tmp_path, undisturbed)


def test_time_limit(lab: Path, undisturbed: End, tmp_path: Path) -> None:
    process = start(workspace(tmp_path))
    job = training(tmp_path)
    freeze(job)
    slurm("scontrol", "update", f"jobid={job}", "EndTime=now")  # Slurm looks every 30 s
    finish(process, tmp_path)
    same_end(tmp_path, undisturbed)
    saved_when_it_was_told_to_stop(tmp_path)


def test_preempted(lab: Path, undisturbed: End, tmp_path: Path) -> None:
    root = workspace(tmp_path, resources={"partition": "scavenge"})
    process = start(root)
    nodes = ",".join(nodes_of(training(root)))
    options = ["--parsable", "--exclusive", "--output=/dev/null", "-p", "gpu", "-w", nodes]
    urgent = slurm("sbatch", *options, "--wrap", "sleep 5")
    finish(process, root)
    assert slurm("scontrol", "--oneliner", "show", "job", urgent).count("JobState=COMPLETED")
    same_end(root, undisturbed)
    saved_when_it_was_told_to_stop(root)


def test_the_workflow_is_killed_and_started_again(lab: Path, undisturbed: End, tmp_path: Path) -> None:
    process = start(workspace(tmp_path))
    first = training(tmp_path)
    trainers = freeze(first)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    again = start(tmp_path)
    second = wait_until(lambda: [job for job in jobs(tmp_path) if job != first], "the second job")[0]
    assert slurm("squeue", "-h", "-j", second, "-o", "%T %r") == "PENDING Dependency"
    shown = cluster.status(tmp_path)
    assert (shown["state"], shown["job"]) == ("running", first)
    assert shown["nodes"] == slurm("squeue", "-h", "-j", first, "-o", "%N")
    assert shown["step"] >= cluster.SAVE_INTERVAL and shown["tokens_per_second"] > 0 < shown["seconds_left"]
    for trainer in trainers:
        trainer.resume()
    finish(again, tmp_path)
    same_end(tmp_path, undisturbed, tries=1)


def nodes_of(job: str) -> list[str]:
    return slurm("scontrol", "show", "hostnames", slurm("squeue", "-h", "-j", job, "-o", "%N")).splitlines()


def kill_node(lab: Path, node: str) -> None:
    """kill -9 slurmd, the processes of its job steps, and whatever these started."""
    daemon = psutil.Process(int((lab / f"run/slurmd.{node}.pid").read_text()))
    gone = [daemon]
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("SLURMD_NODENAME") == node and str(lab) in process.environ()["PATH"]:
                gone.append(process)
    for stepd in steps_of(gone):
        gone.append(stepd)
    for process in gone:
        with contextlib.suppress(psutil.Error):
            process.kill()


def steps_of(processes: list[psutil.Process]) -> list[psutil.Process]:
    """slurmstepd, the parent of a step's first processes."""
    found = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            parent = process.parent()
            if parent is not None and parent.name() == "slurmstepd":
                found.append(parent)
    return found
