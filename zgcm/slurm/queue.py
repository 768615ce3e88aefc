"""What `squeue` says of a job."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

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
    directory: str
    """Where it was submitted to run."""


def job(job_id: str) -> Job | None:
    """The job if it has not ended. Raises LookupError when the queue cannot be asked."""
    return next((found for _, found in ask(f"--jobs={job_id}")), None)


def jobs_of(directory: Path) -> dict[str, Job]:
    """Jobs of a workflow's directory by their comments: `rule_train_wildcards_sft` makes results/sft/done.

    Empty without Slurm. Of two jobs with one comment, one of which waits for the other, the older one counts.
    """
    try:
        mine = ask("--me")
    except LookupError:
        return {}
    place = str(directory.resolve())
    return {comment: found for comment, found in reversed(mine) if found.directory == place}


def ask(option: str) -> list[tuple[str, Job]]:
    """(comment, job) of the jobs that have not ended, oldest first. Raises LookupError."""
    if not shutil.which("squeue"):
        raise LookupError("there is no squeue here")
    command = ["squeue", "--noheader", "--sort=i", "--format=%i|%T|%N|%L|%r|%Z|%k", option]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired as error:
        raise LookupError(f"squeue did not answer within {SECONDS} s") from error
    if UNKNOWN_JOB in asked.stderr:  # it ended minutes ago and is forgotten
        return []
    if asked.returncode:
        raise LookupError(asked.stderr.strip())
    rows = [line.split("|", 6) for line in asked.stdout.splitlines()]
    return [(row[6], Job(*row[:6])) for row in rows]
