"""What `squeue` says of a job."""

import shutil
import subprocess
from dataclasses import dataclass

UNKNOWN_JOB = "Invalid job id"
SECONDS = 60  # squeue's own patience with a busy controller


@dataclass(frozen=True)
class Job:
    """A job that waits, runs or is being ended."""

    job_id: str
    state: str
    """Slurm's word, for instance RUNNING."""
    nodes: str
    """Names in Slurm's short form; empty while it waits."""
    time_left: str
    """Until the time limit, [days-]hours:minutes:seconds."""
    reason: str
    """Why it waits."""


def job(job_id: str) -> Job | None:
    """The job if it has not ended. Raises LookupError when the queue cannot be asked."""
    if not shutil.which("squeue"):
        raise LookupError("there is no squeue here")
    try:
        asked = subprocess.run(
            ["squeue", "--noheader", f"--jobs={job_id}", "--format=%T|%N|%L|%r"],
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise LookupError(f"squeue did not answer within {SECONDS} s") from error
    if UNKNOWN_JOB in asked.stderr:  # it ended minutes ago and is forgotten
        return None
    if asked.returncode:
        raise LookupError(asked.stderr.strip())
    return Job(job_id, *line.split("|")) if (line := asked.stdout.strip()) else None
