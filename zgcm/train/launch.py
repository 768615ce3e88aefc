"""Start the trainer's processes, relay signals to them, keep their log, and show their progress."""

import contextlib
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import psutil

from zgcm.config.resources import Resources
from zgcm.slurm.launcher import SCRIPT, on_every_node
from zgcm.stopping import answering, impatient
from zgcm.train.speed import PROGRESS

LAST_LINES = 30
# Megatron sets these by the recipe's attention_backend and refuses others that it finds set.
ATTENTION_SWITCHES = ("NVTE_FLASH_ATTN", "NVTE_FUSED_ATTN", "NVTE_UNFUSED_ATTN")


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended."""

    returncode: int
    signalled: int
    """The signal that asked us to stop, 0 if none; we passed it on, and the trainer saved and ended."""
    last_lines: list[str]


def launch(resources: Resources, run: Path, token: str, log: Path) -> Outcome:
    """Run the trainer to its end. Its output goes to `log`, its progress lines to stderr."""
    log.parent.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        command(resources, run / "trainer.json", log.with_suffix("")),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**environment(resources), **tracking(run), "ZGCM_OWNER_TOKEN": token},
    )
    assert process.stdout is not None
    last: deque[str] = deque(maxlen=LAST_LINES)
    with relaying(process) as signals, log.open("ab", buffering=0) as stream:
        for line in process.stdout:
            try:
                stream.write(line.encode())
            except OSError as error:  # a full disk must not hide why the trainer ends; it will say so itself
                print(f"zgcm: a line of the log is lost: {error}", file=sys.stderr)
            if line.startswith(PROGRESS):
                print(line.removeprefix(PROGRESS), end="", file=sys.stderr, flush=True)
            else:
                last.append(line.rstrip())
        process.wait()
    return Outcome(process.returncode, signals[0] if signals else 0, list(last))


def command(resources: Resources, settings: Path, logs: Path, module: str = "zgcm.train.entry") -> list[str]:
    """One process directly; several under torch.distributed.run, on several nodes under launch.sh that gives
    it rank and rendezvous in the environment. `logs`: how the names of the nodes' logs begin.

    Raises ZgcmError for several nodes without a Slurm job.
    """
    entry = ["-m", module, str(settings)]
    if resources.world_size == 1:
        return [sys.executable, *entry]
    shape = [f"--nnodes={resources.nodes}", f"--nproc-per-node={resources.processes_per_node}"]
    launcher = [sys.executable, "-m", "zgcm.train.agent", *shape]
    if resources.nodes == 1:
        return [*launcher, "--standalone", *entry]
    return on_every_node(resources, logs, [*launcher, *entry])


def environment(resources: Resources) -> dict[str, str]:
    """The trainer's environment: the user's, and what the engines want where the user says nothing."""
    wanted = {
        "CUDA_DEVICE_MAX_CONNECTIONS": "1",
        "OMP_NUM_THREADS": str(resources.cpus_per_process),
        "PYTHONUNBUFFERED": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "PYTHONWARNINGS": "ignore",
    }
    if resources.gpus_per_node:
        wanted |= {"NCCL_IB_DISABLE": "0", "NCCL_DEBUG": "WARN", "NVTE_CUDA_ARCHS": "90"}
        wanted |= {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "NVTE_FRAMEWORK": "pytorch"}
    inherited = {key: value for key, value in os.environ.items() if key not in ATTENTION_SWITCHES}
    if resources.world_size > 1:
        return {**wanted, **inherited}
    # A shell or a job may hold another program's; the trainer would wait for ranks that do not exist.
    alone = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    return {**wanted, **inherited, **alone, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}


def tracking(run: Path) -> dict[str, str]:
    """All attempts at a run are one run of Weights & Biases."""
    return {"WANDB_RUN_ID": f"{run.parent.parent.name}-{run.name}", "WANDB_RESUME": "allow"}


@contextlib.contextmanager
def relaying(process: subprocess.Popen[str]) -> Iterator[list[int]]:
    """Pass SIGINT, SIGTERM and SIGUSR2 on as SIGTERM, which the trainer answers by saving and exiting;
    between it and us zgcm.train.agent and launch.sh pass it on.

    A second Ctrl-C kills the trainers.
    """
    received: list[int] = []

    def relay(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if impatient(received):
            kill(process)
        else:
            process.terminate()

    try:
        with answering(relay):
            yield received
    finally:
        kill(process)
        process.wait()


def kill(process: subprocess.Popen[Any]) -> None:
    """The process, if it still runs, and all below it: torch.distributed.run's trainers would outlive it."""
    if process.poll() is not None:
        return
    if isinstance(process.args, list) and process.args[0] == str(SCRIPT):  # its trainers run on other nodes
        process.send_signal(signal.SIGQUIT)
        return
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()
    process.kill()
