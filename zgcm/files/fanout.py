"""One function on many items: here, in local processes, or as a job array through submitit.

    run_all(clean_file, items, Fanout(jobs=4), on_done)

An item that fails stops no other; the error at the end names the first and says how many failed. The same
command again then does the rest, since each item's function skips what is done.
"""

import contextlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import batched
from pathlib import Path
from typing import Any, Literal

from zgcm.errors import ZgcmError
from zgcm.io import refused

Cluster = Literal["local", "slurm"]


@dataclass(frozen=True)
class Fanout:
    """How many items run at once, and where: `cluster` None means processes of this one."""

    jobs: int = 1
    cluster: Cluster | None = None
    folder: Path = Path("fanout")
    """Of submitit's job scripts and logs."""
    options: dict[str, str] = field(default_factory=dict)
    """Options of sbatch (partition, time, mem, ...)."""


@dataclass(frozen=True)
class Outcome[R]:
    """A result, or what a failure says: errors do not cross every kind of process boundary whole."""

    result: R | None = None
    error: dict[str, str] | None = None


def run_all[T, R](
    function: Callable[[T], R], items: Sequence[T], fanout: Fanout, on_done: Callable[[T, R], None]
) -> list[R]:
    """Results in the order of the items; `on_done` hears of each as it ends. Raises ZgcmError when any
    failed, after the others have ended."""
    guarded = partial(_guarded, function)
    outcomes: dict[int, Outcome[R]] = {}
    for number, outcome in _run(guarded, items, fanout):
        outcomes[number] = outcome
        if outcome.error is None:
            assert outcome.result is not None
            on_done(items[number], outcome.result)
    failed = [outcome.error for _, outcome in sorted(outcomes.items()) if outcome.error is not None]
    if failed:
        raise _failure(failed, len(items))
    return [outcomes[number].result for number in range(len(items))]  # type: ignore[misc]


def _guarded[T, R](function: Callable[[T], R], item: T) -> Outcome[R]:
    try:
        return Outcome(result=function(item))
    except ZgcmError as error:
        return Outcome(error=error.as_dict())
    except OSError as error:
        if (told := refused(error)) is None:
            raise
        return Outcome(error=told.as_dict())


def _run[T, R](
    function: Callable[[T], Outcome[R]], items: Sequence[T], fanout: Fanout
) -> Iterable[tuple[int, Outcome[R]]]:
    if fanout.cluster is not None:
        return _submitted(function, items, fanout)
    if fanout.jobs == 1 or len(items) == 1:
        return ((number, function(item)) for number, item in enumerate(items))
    return _in_processes(function, items, fanout.jobs)


def _in_processes[T, R](
    function: Callable[[T], Outcome[R]], items: Sequence[T], jobs: int
) -> Iterator[tuple[int, Outcome[R]]]:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed

    # Spawned, not forked: tokenizers have threads, and a fork would copy their locks.
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting = {pool.submit(function, item): number for number, item in enumerate(items)}
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _submitted[T, R](
    function: Callable[[T], Outcome[R]], items: Sequence[T], fanout: Fanout
) -> Iterator[tuple[int, Outcome[R]]]:
    """A job array, `jobs` of it at a time. Interrupted, it cancels what it submitted."""
    import submitit

    if fanout.cluster == "slurm" and shutil.which("srun") is None:
        raise ZgcmError(
            "There is no Slurm here", found="no srun on the PATH", expected="a login node of a Slurm cluster",
            hint="--fanout local runs the same jobs on this machine; --jobs N needs no submitit at all",
        )  # fmt: skip
    executor = submitit.AutoExecutor(folder=fanout.folder, cluster=fanout.cluster)
    if fanout.cluster == "slurm":
        parameters: dict[str, Any] = {f"slurm_{key}": value for key, value in fanout.options.items()}
        executor.update_parameters(slurm_array_parallelism=fanout.jobs, name="zgcm", **parameters)
        waves = [tuple(range(len(items)))]
    else:  # the local executor starts all jobs of an array at once
        waves = list(batched(range(len(items)), fanout.jobs))
    for wave in waves:
        jobs = executor.map_array(function, [items[number] for number in wave])
        with _cancelled_on_failure(jobs):
            for number, job in zip(wave, jobs, strict=True):
                yield number, _job_outcome(job)


def _job_outcome(job: Any) -> Outcome[Any]:
    import submitit

    try:
        return job.result()
    except submitit.core.utils.UncompletedJobError as error:
        return Outcome(
            error={
                "what": "A job ended without a result", "where": str(job.paths.stderr),
                "found": str(error).strip().splitlines()[0],
                "hint": "read that log; the same command again does what is left",
            }
        )  # fmt: skip


@contextlib.contextmanager
def _cancelled_on_failure(jobs: list[Any]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        for job in jobs:
            job.cancel(check=False)
        raise


def _failure(failed: list[dict[str, str]], total: int) -> ZgcmError:
    first = dict(failed[0])
    if total > 1:
        first["hint"] = (
            f"{first.get('hint', 'see above')}; {len(failed):,} of {total:,} files failed, others are done"
        )
    return ZgcmError(first.pop("what"), **first)
