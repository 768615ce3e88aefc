"""A directory for what does not fit into memory: gone when its owner ends, however it ends.

The owner holds a lock on its directory. Whoever comes next removes the directories whose lock is free: what a
`kill -9` left behind. On a file system without locks nothing of another process is touched.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

PREFIX = ".spill-"


@contextlib.contextmanager
def spill_directory(parent: Path) -> Iterator[Path]:
    """An empty directory below `parent`, removed at the end; abandoned ones are removed at the start."""
    parent.mkdir(parents=True, exist_ok=True)
    for left in parent.glob(f"{PREFIX}*"):
        _remove_abandoned(left)
    directory, owned = _create(parent)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(owned)


def _create(parent: Path) -> tuple[Path, int]:
    while True:
        directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        owned = os.open(directory, os.O_RDONLY)
        _lock(owned)
        if directory.exists():  # else another start removed it before it was locked
            return directory, owned
        os.close(owned)


def _remove_abandoned(directory: Path) -> None:
    with contextlib.suppress(FileNotFoundError, PermissionError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            if _lock(descriptor):
                shutil.rmtree(directory, ignore_errors=True)
        finally:
            os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
