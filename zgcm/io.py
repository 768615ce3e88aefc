"""Files that are either whole or absent: temporary name, fsync, rename. And the digests that name them."""

import contextlib
import errno
import fcntl
import glob
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from zgcm.errors import ZgcmError


def canonical_json(value: Any) -> bytes:
    """The one JSON text of a value: keys sorted, no spaces, UTF-8, NaN refused. Identities hash this."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def sha256_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def fsync_directory(directory: Path) -> None:
    """Make a rename inside `directory` survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def atomic_open(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary neighbour of `path` for writing; on success fsync and rename it, on failure remove it.

    Raises ZgcmError when the disk is full; nothing is then left under either name. What a killed writer
    of the same file left behind is removed first.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as stream:
            lock(stream)
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
        fsync_directory(path.parent)
    except OSError as error:
        if is_disk_full(error):
            raise disk_full(path) from error
        if error.errno == errno.EFBIG and error.filename is None:  # only writing says so, of no file by name
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def not_the_input(output: Path, source: Path) -> None:
    """Raises ZgcmError when writing `output` would replace the file it is made from."""
    if output.exists() and source.exists() and output.samefile(source):
        raise ZgcmError(
            "The output would replace the input", where=str(output), hint="choose another --output"
        )


def is_temporary(path: Path) -> bool:
    """Whether a file is one that `atomic_open` writes before it gets its name."""
    return path.name.startswith(".") and path.name.endswith(".tmp")


def remove_abandoned(path: Path) -> None:
    """Remove temporary neighbours of `path` whose writers were killed; a living writer holds a lock."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        with contextlib.suppress(FileNotFoundError, PermissionError), left.open("r+b") as stream:
            if lock(stream):
                left.unlink(missing_ok=True)


def lock(stream: BinaryIO) -> bool:
    """Try to lock an open file until it is closed. False when another holds it, or the file system has no
    locks: nothing is then removed."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def refused(error: OSError | MemoryError) -> ZgcmError | None:
    """What the user reads when the system refuses a file (no permission, read-only, full, no directory), or
    memory, handles and processes."""
    if isinstance(error, MemoryError):
        return ZgcmError(
            "The system refuses more memory", found=str(error),
            hint="see ulimit -v and the job's memory; fewer --jobs need less",
        )  # fmt: skip
    handles = "raise the number of open files, ulimit -n, or use fewer --jobs"
    causes = {
        errno.ENOENT: "a part of that path is not there, or went away: does another run work there?",
        errno.ESTALE: "the network file system lost it; try again",
        errno.ELOOP: "symbolic links lead to each other there; correct them",
        errno.EMFILE: handles,
        errno.ENFILE: handles,
        errno.EAGAIN: "raise the number of processes, ulimit -u, or use fewer --jobs",
        errno.ENOMEM: "see ulimit -v and the job's memory; fewer --jobs need less",
        errno.ENXIO: "that is no regular file; name another one",
        errno.ENODEV: "that is no regular file; name another one",
        errno.EROFS: "mount the file system writable, or choose another directory",
        errno.EACCES: "give yourself the permission, or choose another directory",
        errno.EPERM: "give yourself the permission, or choose another directory",
        errno.ENOSPC: "free some space and repeat the same command",
        errno.EDQUOT: "free some space and repeat the same command",
        errno.ENOTDIR: "a part of that path is a file; move it away, or correct the path",
        errno.EEXIST: "a file stands where a directory is wanted; move it away, or choose another path",
        errno.EISDIR: "a directory stands where a file is wanted; move it away, or choose another path",
        errno.EFBIG: "the file would be larger than allowed; see ulimit -f, or choose another file system",
        errno.EIO: "the disk or the network file system fails; try again, or another directory",
        errno.ENAMETOOLONG: "use a shorter path",
    }
    if error.errno not in causes:
        return None
    return ZgcmError(
        "The system refuses a file or directory", where=str(error.filename or ""), found=str(error.strerror),
        hint=causes[error.errno],
    )  # fmt: skip


def is_disk_full(error: BaseException) -> bool:
    """Whether an error is that of a full disk or quota. safetensors and torch have only the system's text, or
    less: "unexpected pos" is what torch's zip writer says after a write that came out shorter than asked."""
    full = (errno.ENOSPC, errno.EDQUOT)
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in full
    words = (*(os.strerror(code) for code in (*full, errno.EFBIG)), "unexpected pos")
    return any(word in str(error) for word in words)


def disk_full(path: Path) -> ZgcmError:
    free = shutil.disk_usage(path.parent).free
    return ZgcmError(
        "The disk is full; nothing was left under the final name",
        where=str(path),
        found=f"{free / 1e6:.1f} MB free",
        hint="free some space (old runs lie under results/*/runs) and repeat the same command",
    )


def write_bytes(path: Path, data: bytes) -> None:
    with atomic_open(path) as stream:
        stream.write(data)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """Human-readable JSON with sorted keys: same value, same bytes."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")


class MissingKey(ZgcmError, KeyError):
    """A JSON file lacks a key that is asked of it."""


class Object(dict[str, Any]):
    """A JSON object that knows its file: a key that is not there is told as a missing file would be."""

    file: Path

    def __missing__(self, key: str) -> Any:
        raise MissingKey(
            "A file is not what its name says: a key is missing",
            where=str(self.file),
            found=", ".join(list(self)[:5]) or "no keys",
            expected=key,
            hint=DAMAGED,
        )


DAMAGED = "restore it, or remove it and repeat the step that makes it"


def parse_json(text: bytes | str, **options: Any) -> Any:
    """`json.loads`, which raises RecursionError for 200,000 "[": a ValueError here, as for other damage."""
    try:
        return json.loads(text, **options)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def read_json(path: Path, *, made_by: str = "", kind: type = dict) -> Any:
    """Read a JSON file that holds an object, or with `kind` a list.

    Raises ZgcmError when it is missing (naming the command that makes it), not JSON (NaN is not), or another
    kind of value; and later, when it is asked for a key that it lacks.
    """

    def known(pairs: dict[str, Any]) -> Object:
        item = Object(pairs)
        item.file = path
        return item

    try:
        text = path.read_bytes()
        value = parse_json(text, object_hook=known, parse_constant=no_number)
    except FileNotFoundError as error:
        hint = f"make it with: {made_by}" if made_by else "run the step that makes it"
        raise ZgcmError("A file is missing", where=str(path), hint=hint) from error
    except (ValueError, RecursionError) as error:  # the latter of 1,000 brackets and more
        raise ZgcmError("Not valid JSON", where=str(path), found=str(error), hint=DAMAGED) from error
    if not isinstance(value, kind):
        raise ZgcmError(
            "A file is not what its name says",
            where=str(path),
            found=f"JSON of another kind: {text[:40].decode(errors='replace')}",
            expected="a list" if kind is list else "an object",
            hint=DAMAGED,
        )
    return value


def no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def found_there(directory: Path) -> str:
    """The first few names of a directory, for messages."""
    if not directory.is_dir():
        return "no such directory"
    names = sorted(path.name for path in directory.iterdir())
    return (
        ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        or "an empty directory"
    )
