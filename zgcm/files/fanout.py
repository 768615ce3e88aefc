"""One function on many items: here, in local processes, or as a job array through submitit.

    run_all(clean_file, items, Fanout(jobs=4), on_done)

An item that fails stops no other; the error at the end tells the first and names the files of some. The same
command again then does the rest, since each item's function skips what is done.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from zgcm.errors import ZgcmError
from zgcm.files import submitted
from zgcm.io import refused
from zgcm.stopping import Interrupted

Cluster = Literal["local", "slurm"]
NAMED = 5


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
    failed = [
        (str(getattr(items[number], "path", items[number])), outcome.error)
        for number, outcome in sorted(outcomes.items())
        if outcome.error is not None
    ]
    if failed:
        raise _failure(failed, len(items))
    return [outcomes[number].result for number in range(len(items))]  # type: ignore[misc]


def _guarded[T, R](function: Callable[[T], R], item: T) -> Outcome[R]:
    try:
        return Outcome(result=function(item))
    except ZgcmError as error:
        return Outcome(error=error.as_dict())
    except (OSError, MemoryError) as error:
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
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool

    # Spawned, not forked: tokenizers have threads, and a fork would copy their locks.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=spawn, initializer=_be_a_worker) as pool:
        waiting = {pool.submit(_work, function, item): number for number, item in enumerate(items)}
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        except BrokenProcessPool as error:
            raise ZgcmError(
                "A worker process was killed", found="no result from it",
                expected="enough memory for all workers",
                hint="use fewer --jobs; the same command again does what is left",
            ) from error  # fmt: skip
        except BaseException:
            for worker in multiprocessing.active_children():
                worker.terminate()
            pool.shutdown(cancel_futures=True)
            raise


def _work[T, R](function: Callable[[T], R], item: T) -> R:
    """One item, in a worker. Told to stop, the worker removes its temporary files and ends."""
    try:
        return function(item)
    except Interrupted as stop:
        os._exit(int(stop.code or 0))


def _stop(number: int, frame: Any) -> None:
    raise Interrupted(128 + number)


def _be_a_worker() -> None:
    """Stop quietly: Ctrl-C goes to workers too, and the parent tells of it. End with the parent: a worker
    whose parent was killed would wait for work for ever."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _submitted[T, R](
    function: Callable[[T], Outcome[R]], items: Sequence[T], fanout: Fanout
) -> Iterator[tuple[int, Outcome[R]]]:
    if fanout.cluster == "slurm":
        ended = submitted.send(function, items, fanout.jobs, fanout.folder, fanout.options)
    else:
        ended = submitted.try_here(function, items, fanout.jobs, fanout.folder)
    return ((number, item if isinstance(item, Outcome) else Outcome(error=item)) for number, item in ended)


def _failure(failed: list[tuple[str, dict[str, str]]], total: int) -> ZgcmError:
    """The first failure, and the files of at most NAMED, with the item that each came from."""
    first = dict(failed[0][1])
    if total > 1:
        files = list(dict.fromkeys(file for file, _ in failed))
        more = f" and {len(files) - NAMED} more" if len(files) > NAMED else ""
        named = f" ({', '.join(files[:NAMED])}{more})" if len(failed) > 1 else ""
        others = ", others are done" if len(failed) < total else ""
        count = f"{len(failed):,} of {total:,} files failed"
        first["hint"] = f"{first.get('hint', 'see above')}; {count}{named}{others}"
    return ZgcmError(first.pop("what"), **first)
