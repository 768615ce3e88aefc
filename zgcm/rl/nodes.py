"""Ray for a stage: of this machine, or over the nodes of its Slurm job by the launcher of training.

launch.sh runs this module once on each node. The first node's process starts the head and says where it is
when it answers; the others join it. All stay until the launcher ends them. Slurm's own SIGTERM, which reaches
every process of the job, must not end Ray while the driver still finishes its step: it is blocked in Ray's
processes, and the ones that started them end them once the driver is through. A token and a directory made
for this run keep every other cluster of the machines out, and this one out of theirs.
"""

import contextlib
import functools
import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil

from zgcm import stopping
from zgcm.config.resources import Resources
from zgcm.config.rl import RLStage
from zgcm.errors import ZgcmError
from zgcm.io import write_text
from zgcm.rl.cluster import ENVIRONMENT, ray_cluster, short_directory, shut_down
from zgcm.slurm.launcher import on_every_node
from zgcm.stopping import DYING

ENDING_SECONDS = 60.0
"""From SIGTERM to the launcher until it is killed."""
JOINING_SECONDS = 300
"""A worker waits so long for the head to listen."""
MODULE = "zgcm.rl.nodes"


@contextlib.contextmanager
def ray_for(stage: RLStage, actors: int, logs: Path) -> Iterator[None]:
    """Ray for a stage's actors: on this machine, or over the nodes of its Slurm job."""
    if stage.resources.nodes == 1:
        with ray_cluster(cpus=actors, gpus=stage.resources.gpus_per_node, logs=logs):
            yield
        return
    os.environ.update(ENVIRONMENT)
    seconds = stage.rollout.setup_timeout
    with ray_nodes(stage.resources, logs.with_name("ray_nodes"), seconds) as address:
        import ray

        with stopping.held():
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        try:
            wait_for_nodes(stage.resources.nodes, seconds)
            yield
        finally:
            shut_down()


@contextlib.contextmanager
def ray_nodes(resources: Resources, logs: Path, seconds: float) -> Iterator[str]:
    """A Ray cluster over this job's nodes; yields its address. `logs`: how the nodes' logs' names begin.

    Import ray inside the block, not before: it reads RAY_AUTH_MODE once, when it is imported, and would be
    refused by the cluster for ever. Raises ZgcmError without a job of as many nodes, and when the head does
    not answer within `seconds`.
    """
    told = logs.with_name(f"{logs.name}.address")
    told.unlink(missing_ok=True)
    logs.parent.mkdir(parents=True, exist_ok=True)
    # both for the nodes, which inherit them, and for this process, which connects
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": _token()}
    with logs.with_name(f"{logs.name}.launch.log").open("wb") as output:
        process = subprocess.Popen(
            launch_command(resources, logs, told), stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        yield _address(process, told, seconds, logs)
    finally:
        told.unlink(missing_ok=True)  # from now on SIGTERM ends Ray
        _end(process)


@functools.cache
def _token() -> str:
    """One a process: Ray reads it once, and a stage that lost a process starts a second cluster."""
    return secrets.token_hex(32)


def launch_command(resources: Resources, logs: Path, told: Path) -> list[str]:
    """This module on every node of the job."""
    amounts = [str(resources.gpus_per_node), str(resources.cores_per_node)]
    return on_every_node(resources, logs, [sys.executable, "-m", MODULE, str(told), *amounts])


def start_command(rank: int, master: str, port: str, gpus: str, cores: str, directory: str) -> list[str]:
    """`ray start` of a node: the head at the rendezvous that launch.sh chose, or a worker that joins it.
    `directory`: the head's files; workers use the same path on their machines."""
    place = ["--head", f"--port={port}", f"--node-ip-address={master}", "--include-dashboard=false"]
    place += [f"--temp-dir={directory}"]
    if rank > 0:
        place = [f"--address={master}:{port}"]
    amounts = [f"--num-gpus={gpus}", f"--num-cpus={cores}", "--disable-usage-stats"]
    return [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", *place, *amounts]


def _address(process: subprocess.Popen[bytes], told: Path, seconds: float, logs: Path) -> str:
    end = time.monotonic() + seconds
    while not told.exists():
        stopping.end_if_asked()
        if process.poll() is not None or time.monotonic() > end:
            said = logs.with_name(f"{logs.name}.launch.log").read_text(errors="replace").strip().splitlines()
            raise ZgcmError(
                "Ray's head does not start on the job's first node",
                where=f"{logs}.node_0.log",
                found=said[-1] if said else f"nothing within {seconds:g} s",
            )
        time.sleep(0.2)
    return told.read_text()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(ENDING_SECONDS)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGQUIT)  # launch.sh kills the step
        process.wait()


def wait_for_nodes(nodes: int, seconds: float) -> None:
    """Until all nodes are part of the cluster that this process is connected to. Raises ZgcmError."""
    import ray

    end = time.monotonic() + seconds
    while (found := sum(node["Alive"] for node in ray.nodes())) < nodes:
        stopping.end_if_asked()
        if time.monotonic() > end:
            raise ZgcmError(
                "Not all nodes of the job joined Ray",
                found=f"{found} after {seconds:g} s",
                expected=f"{nodes} (resources.nodes)",
                hint="the nodes' own logs lie beside the run's: logs/ray_nodes.node_N.log",
            )
        time.sleep(0.5)


# --- on a node ------------------------------------------------------------------------------------------


def main() -> None:
    """Run `ray start` here until SIGTERM comes and the driver has ended, and end all that it started."""
    told, gpus, cores = Path(sys.argv[1]), *sys.argv[2:]
    rank = int(os.environ["PET_NODE_RANK"])
    master, port = os.environ["PET_MASTER_ADDR"], os.environ["PET_MASTER_PORT"]
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    if rank > 0:
        _until_listening(master, int(port), asked)
    directory = tempfile.mkdtemp(prefix="zg", dir=short_directory())
    command = start_command(rank, master, port, gpus, cores, directory)
    with _blocked(signal.SIGTERM):
        process = psutil.Popen(command, env=os.environ | ENVIRONMENT)
    if rank == 0:
        _until_listening(master, int(port), asked)
        if not asked:
            write_text(told, f"{master}:{port}")
    needed = told.exists if rank == 0 else partial(_listens, master, int(port))
    while process.poll() is None and not (asked and not needed()):
        time.sleep(0.2)
    code = process.poll()
    _kill_all(process)
    shutil.rmtree(directory, ignore_errors=True)
    sys.exit(0 if asked else code or 1)


@contextlib.contextmanager
def _blocked(number: signal.Signals) -> Iterator[None]:
    """What is started inside the block never gets the signal, nor do its children, whatever they ask for."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})


def _kill_all(process: psutil.Popen) -> None:
    """The process and all below it; they are deaf to anything else."""
    with contextlib.suppress(psutil.NoSuchProcess):
        found = [process, *process.children(recursive=True)]
        for one in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        psutil.wait_procs(found, timeout=DYING)


def _until_listening(host: str, port: int, asked: list[int]) -> None:
    end = time.monotonic() + JOINING_SECONDS
    while not asked and time.monotonic() < end and not _listens(host, port):
        time.sleep(0.5)


def _listens(host: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=2):
        return True
    return False


if __name__ == "__main__":
    main()
