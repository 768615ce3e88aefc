"""What torch and safetensors raise at a damaged file or a full disk, told as the user can act on it."""

import contextlib
import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path

from safetensors import SafetensorError
from torch.distributed.checkpoint import CheckpointException

from zgcm.errors import ZgcmError
from zgcm.io import disk_full, is_disk_full, refused

FAILED = (CheckpointException, SafetensorError, RuntimeError, OSError)
"""The first derives from BaseException: `except Exception` lets it pass."""
UNREADABLE = (*FAILED, pickle.UnpicklingError, EOFError, ValueError, AttributeError, ImportError)
"""The last two where a pickle names what is not installed here."""


def cause(error: BaseException) -> BaseException:
    """A failed save or load wraps what each rank raised; here there is one."""
    if isinstance(error, CheckpointException):
        return next(iter(error.failures.values()))[0]
    return error


@contextlib.contextmanager
def reading(checkpoint: Path) -> Iterator[None]:
    """Raises ZgcmError when the checkpoint, or one file of it, cannot be read."""
    try:
        with _quiet():
            yield
    except UNREADABLE as error:
        found = cause(error)
        said = (str(found) or type(found).__name__).splitlines()[0].split(". This is an internal")[0]
        raise ZgcmError(
            "A file of the checkpoint is missing or damaged",
            where=str(checkpoint),
            found=said[:200],
            hint="bring the checkpoint again from where it came from",
        ) from error


@contextlib.contextmanager
def writing(directory: Path) -> Iterator[None]:
    """Raises ZgcmError when the disk is full or refuses, or when that is what a part of the save raised; any
    other error as it was."""
    try:
        with _quiet():
            yield
    except FAILED as error:
        found = cause(error)
        if is_disk_full(found):
            raise disk_full(directory) from error
        said = refused(found) if isinstance(found, OSError) else found
        if isinstance(said, ZgcmError):
            raise said from error
        raise


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """torch warns that no process group exists, which is what `no_dist` asks for."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        yield
