"""One writer per run directory, decided without a server.

The owner is a host, a process and its start time, or a Slurm job. On the owner's host the kernel knows
whether it lives; under Slurm `squeue` knows; only when neither can tell does the age of the heartbeat decide.
"""

import contextlib
import fcntl
import os
import secrets
import socket
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import psutil

from zgcm.errors import ZgcmError
from zgcm.io import read_json, write_json
from zgcm.slurm import queue

NAME, LOCK = "owner.json", "owner.lock"
HEARTBEAT_LIMIT = 600.0  # seconds; a trainer beats at every log interval and every save


@dataclass(frozen=True)
class Owner:
    host: str
    pid: int
    started: float
    """Process start time, seconds since the epoch: a reused pid is another process."""
    slurm_job_id: str | None
    token: str
    recipe_id: str = ""
    """What it makes; empty for trials."""


def this_process(recipe_id: str = "") -> Owner:
    return Owner(
        host=socket.gethostname(),
        pid=os.getpid(),
        started=psutil.Process().create_time(),
        slurm_job_id=os.environ.get("SLURM_JOB_ID"),
        token=secrets.token_hex(8),
        recipe_id=recipe_id,
    )


def read_owner(run: Path) -> Owner | None:
    if not (run / NAME).exists():
        return None
    try:
        said = read_json(run / NAME)
        return Owner(*(said[field.name] for field in fields(Owner)))
    except ZgcmError as error:
        if not (run / NAME).exists():  # released in between
            return None
        hint = f"make sure that no process writes this run, then: rm {run / NAME}"
        raise ZgcmError(
            "It is not known who writes this run: " + error.what,
            where=error.where,
            found=error.found,
            expected=error.expected,
            hint=hint,
        ) from error


def is_alive(owner: Owner, run: Path) -> bool:
    if owner.host == socket.gethostname():
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(owner.pid)
            same = abs(process.create_time() - owner.started) < 1.0
            return same and process.status() != psutil.STATUS_ZOMBIE
        return False
    if owner.slurm_job_id and owner.slurm_job_id == os.environ.get("SLURM_JOB_ID"):
        return False  # requeued by Slurm when all of its last start had ended, and begun on another node
    if owner.slurm_job_id:
        with contextlib.suppress(LookupError):
            return queue.job(owner.slurm_job_id) is not None
    return time.time() - (run / NAME).stat().st_mtime < HEARTBEAT_LIMIT


def refusal(other: Owner, run: Path) -> ZgcmError:
    """What a second writer is told."""
    job = f", Slurm job {other.slurm_job_id}" if other.slurm_job_id else ""
    return ZgcmError(
        "Another live process writes this run",
        where=str(run),
        found=f"process {other.pid} on {other.host}{job}",
        hint="wait for it or stop it, then repeat the command; nothing was changed",
    )


def live_job(runs: Path, recipe_id: str) -> str | None:
    """The Slurm job that makes `recipe_id` in one of the run directories now, if there is one.

    A workflow that was killed leaves it behind; the workflow after it waits for that job.
    """
    for run in sorted(path.parent for path in runs.glob(f"*/{NAME}")):
        owner = read_owner(run)
        if owner is not None and owner.slurm_job_id and owner.recipe_id == recipe_id:
            with contextlib.suppress(LookupError):
                if queue.job(owner.slurm_job_id):
                    return owner.slurm_job_id
    return None


@contextlib.contextmanager
def owning(run: Path, recipe_id: str = "") -> Iterator[Owner]:
    """Own `run` for the duration of a block. Raises ZgcmError when another live process owns it."""
    run.mkdir(parents=True, exist_ok=True)
    me = this_process(recipe_id)
    with (run / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        other = read_owner(run)
        if other is not None and is_alive(other, run):
            raise refusal(other, run)
        write_json(run / NAME, asdict(me))
    try:
        yield me
    finally:
        release(run, me.token)


def check(run: Path, token: str) -> None:
    """Call before publishing anything. Raises ZgcmError when the run was taken over; beats otherwise."""
    owner = read_owner(run)
    if owner is None or owner.token != token:
        raise ZgcmError("This process no longer owns its run; it stops without publishing", where=str(run))
    os.utime(run / NAME)


def release(run: Path, token: str) -> None:
    owner = read_owner(run)
    if owner is not None and owner.token == token:
        (run / NAME).unlink(missing_ok=True)
