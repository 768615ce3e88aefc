"""A Ray cluster of our own: started for one run, stopped with it, never somebody else's."""

import contextlib
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

ADDRESS = "ZGCM_RAY_ADDRESS"
"""Set by the multi-node launcher to the cluster it started for this job. RAY_ADDRESS is not read."""
SESSION_PATH_LENGTH = 75
"""session_2026-01-31_23-59-59_123456_1234567/sockets/plasma_store and the like; a socket's path has 107 bytes."""
OBJECT_STORE_BYTES = 256 << 20


@contextlib.contextmanager
def ray_cluster(*, cpus: int, gpus: int, logs: Path) -> Iterator[None]:
    """Ray is initialised inside the block. On failure Ray's own logs are kept in `logs`."""
    os.environ.update({"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"})
    import ray

    address = os.environ.get(ADDRESS)
    if address:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        try:
            yield
        finally:
            ray.shutdown()
        return
    directory = Path(tempfile.mkdtemp(prefix="zg", dir=short_directory()))
    try:
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
        yield
    except BaseException:
        ray.shutdown()
        keep_logs(directory, logs)
        raise
    finally:
        ray.shutdown()
        shutil.rmtree(directory, ignore_errors=True)


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
