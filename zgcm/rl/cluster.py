"""A Ray cluster of our own: started for one run, stopped with it, never somebody else's."""

import contextlib
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from zgcm import stopping
from zgcm.errors import ZgcmError
from zgcm.io import write_text

SESSION_PATH_LENGTH = 75
"""session_2026-01-31_23-59-59_123456_1234567/sockets/plasma_store; a socket's path has at most 107 bytes."""
OBJECT_STORE_BYTES = 256 << 20
START_ATTEMPTS = 4
ECHO_SECONDS = 1.0
"""A request comes twice, from terminal and workflow, and the second must not meet ray.shutdown, in
which SIGTERM is the system's for some 3 ms (zgcm.stopping.held): the process would end without a word."""
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # actors without GPUs keep CUDA_VISIBLE_DEVICES as it is
    "RAY_worker_niceness": "0",  # the default, 15, starves engine and learner on a busy machine
}


@contextlib.contextmanager
def ray_cluster(*, cpus: int, gpus: int, logs: Path) -> Iterator[None]:
    """Ray of this machine inside the block. On failure Ray's own logs are kept in `logs`."""
    os.environ.update(ENVIRONMENT)

    directory = start_local(cpus=cpus, gpus=gpus, logs=logs)
    failed = False
    try:
        yield
    except Exception as error:
        failed = not isinstance(error, stopping.Stopped)
        raise
    finally:
        end_local(directory, logs if failed else None)
        logs.with_name("ray_directory").unlink(missing_ok=True)


def start_local(*, cpus: int, gpus: int, logs: Path) -> Path:
    """Start Ray on this machine and return its directory. Raises ZgcmError, Interrupted when asked to stop.

    Ray waits 30 s for itself and no longer, which a busy machine can exceed: hence several attempts.
    """
    import ray

    note = logs.with_name("ray_directory")
    if note.exists():  # of an attempt that was killed
        shutil.rmtree(note.read_text(), ignore_errors=True)
    for attempt in range(1, START_ATTEMPTS + 1):
        directory = Path(tempfile.mkdtemp(prefix="zg", dir=short_directory()))
        write_text(note, str(directory))
        try:
            with stopping.held():
                ray.init(
                    address="local",
                    num_cpus=cpus,
                    num_gpus=gpus,
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    object_store_memory=OBJECT_STORE_BYTES if gpus == 0 else None,
                    _temp_dir=str(directory),
                )
            stopping.end_if_asked()
            return directory
        except stopping.Interrupted:
            end_local(directory, None)
            raise
        except Exception as error:
            end_local(directory, logs)
            stopping.end_if_asked()
            if attempt == START_ATTEMPTS:
                raise ZgcmError(
                    "Ray does not start", where=str(logs), found=str(error), hint="is the machine overloaded?"
                ) from error
    raise AssertionError


def end_local(directory: Path, logs: Path | None) -> None:
    """Stop this machine's Ray and remove its directory; keep its own logs in `logs`."""
    shut_down()
    if logs is not None:
        keep_logs(directory, logs)
    shutil.rmtree(directory, ignore_errors=True)


def shut_down() -> None:
    """Disconnect from Ray; end it where this process started it."""
    import ray

    if stopping.was_requested():
        time.sleep(ECHO_SECONDS)
    with stopping.held():
        ray.shutdown()


def short_directory() -> str:
    """The directory for temporary files, or /tmp where its path would make Ray's sockets too long."""
    preferred = tempfile.gettempdir()
    return preferred if len(os.fsencode(preferred)) + SESSION_PATH_LENGTH + 12 <= 107 else "/tmp"


def keep_logs(directory: Path, target: Path) -> None:
    """Copy the text logs of the last session, nothing else (it also holds sockets)."""
    for path in sorted(directory.glob("session_2*/logs/*")):
        if path.is_file() and path.suffix in (".out", ".err", ".log") and path.stat().st_size:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / path.name)
