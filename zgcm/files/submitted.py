"""Items as a job array through submitit: sent, waited for, and cancelled when the waiting one is interrupted.

Whether a job still exists is asked of squeue. submitit itself asks sacct, and on a cluster without accounting
waits for ever for a job that was cancelled or killed.
"""

import contextlib
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import batched
from pathlib import Path
from typing import Any

from zgcm.errors import ZgcmError

LOOK_SECONDS = 1.0
"""Between looks for results."""
ASK_SECONDS = 15.0
"""Between questions to squeue. A job counts as lost when it was missing twice: its result may still be on the
way through a network file system."""


def send[T, R](
    function: Callable[[T], R], items: Sequence[T], jobs: int, folder: Path, options: Mapping[str, str]
) -> Iterator[tuple[int, R | dict[str, str]]]:
    """Through Slurm, `jobs` of the array at a time: number and result of each item as it ends; where there is
    none, what an error says."""
    if shutil.which("srun") is None:
        raise ZgcmError(
            "There is no Slurm here", found="no srun on the PATH", expected="a login node of a Slurm cluster",
            hint="--fanout local runs the same jobs on this machine; --jobs N needs no submitit at all",
        )  # fmt: skip
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    executor = _executor("slurm", folder)
    parameters: dict[str, Any] = {f"slurm_{key}": value for key, value in options.items()}
    try:
        executor.update_parameters(slurm_array_parallelism=jobs, name="zgcm", **parameters)
    except (NameError, ValueError) as error:
        given = " ".join(f"{key}={value}" for key, value in options.items())
        raise ZgcmError("sbatch has no such option", found=given,
                        hint="long names, _ for -, as partition, time, mem") from error  # fmt: skip
    try:
        sent = executor.map_array(function, items)
    except (FailedJobError, FailedSubmissionError) as error:
        raise ZgcmError("sbatch refuses the jobs", found=str(error).strip().splitlines()[-1],
                        hint="correct the --slurm options") from error  # fmt: skip
    with _cancelled_on_failure(sent):
        yield from _as_they_end(sent)


def try_here[T, R](
    function: Callable[[T], R], items: Sequence[T], jobs: int, folder: Path
) -> Iterator[tuple[int, R | dict[str, str]]]:
    """The same in processes of this machine, array after array: submitit starts all of one at once."""
    executor = _executor("local", folder)
    for numbers in batched(range(len(items)), jobs):
        sent = executor.map_array(function, [items[number] for number in numbers])
        with _cancelled_on_failure(sent):
            for number, job in zip(numbers, sent, strict=True):
                yield number, _result(job)


def _executor(cluster: str, folder: Path) -> Any:
    import submitit

    return submitit.AutoExecutor(folder=folder, cluster=cluster)


def _as_they_end(sent: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    waiting = dict(enumerate(sent))
    missing: set[int] = set()
    asked = time.monotonic()
    while waiting:
        ended = [number for number, job in waiting.items() if _has_result(job)]
        for number in ended:
            yield number, _result(waiting.pop(number))
        if time.monotonic() - asked >= ASK_SECONDS:
            asked = time.monotonic()
            queued = _queued(job.job_id for job in waiting.values())
            gone = {n for n, job in waiting.items() if queued is not None and job.job_id not in queued}
            for number in sorted(gone & missing):
                if not _has_result(waiting[number]):
                    yield number, _lost(waiting.pop(number), "neither a result nor such a job in the queue")
            missing = gone
        elif not ended:
            time.sleep(LOOK_SECONDS)


def _has_result(job: Any) -> bool:
    return job.paths.result_pickle.exists()


def _queued(ids: Iterable[str]) -> set[str] | None:
    """Which tasks squeue knows, as 12_3; None when it does not answer."""
    arrays = sorted({one.partition("_")[0] for one in ids})
    command = ["squeue", "--noheader", "--array", "--format=%i", f"--jobs={','.join(arrays)}"]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    if asked.returncode == 0:
        return set(asked.stdout.split())
    return set() if "Invalid job id" in asked.stderr else None


def _result(job: Any) -> Any:
    from submitit.core.utils import FailedJobError, UncompletedJobError

    try:
        return job.result()
    except (FailedJobError, UncompletedJobError) as error:
        return _lost(job, str(error).strip().splitlines()[-1])


def _lost(job: Any, found: str) -> dict[str, str]:
    return {
        "what": "A job ended without a result", "where": str(job.paths.stderr), "found": found,
        "hint": "read that log; the same command again does what is left",
    }  # fmt: skip


@contextlib.contextmanager
def _cancelled_on_failure(jobs: Sequence[Any]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        for job in jobs:
            job.cancel(check=False)
        raise
