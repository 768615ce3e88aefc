"""Which files of records a command line means."""

import glob
from collections.abc import Iterable
from pathlib import Path

from zgcm.errors import ZgcmError
from zgcm.records.files import FORMATS, record_format

BESIDE = (".rejected.jsonl", ".removed.jsonl", "duplicates.parquet")
"""Endings of what verbs left out, and why: never meant by the name of their directory."""


def find_files(wanted: Iterable[str]) -> list[Path]:
    """Files, the readable files below directories, and those that match patterns, in the order given.

    A directory stands neither for hidden files nor for what a verb left out and wrote beside its records.

    Raises ZgcmError for a path that is no file, and for a file that nobody reads.
    """
    found = [path for item in wanted for path in _expand(item)]
    for path in found:
        record_format(path)
        require_regular(path)
    return found


def require_regular(path: Path) -> None:
    """Raises ZgcmError for what is no regular file. Files are read more than once, which pipes cannot be."""
    if path.is_file():
        return
    if path.exists():
        kind = "a directory" if path.is_dir() else "a pipe or a device"
        raise ZgcmError(
            "Not a regular file", where=str(path), found=kind,
            expected="a file that can be read twice", hint="write its content to a file first",
        )  # fmt: skip
    links = path.is_symlink()
    raise ZgcmError("No such file", where=str(path), found="a link that leads nowhere" if links else "",
                    hint="check the link" if links else "check the path")  # fmt: skip


def _is_meant(below: Path) -> bool:
    """Of the files below a directory: neither hidden ones nor what verbs write beside the records."""
    hidden = any(part.startswith(".") for part in below.parts)
    return below.name.endswith(FORMATS) and not hidden and not below.name.endswith(BESIDE)


def _expand(item: str) -> list[Path]:
    path = Path(item)
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if _is_meant(file.relative_to(path)))
    if path.exists():  # whatever marks of a pattern its name holds
        return [path]
    if glob.has_magic(item):
        return sorted(Path(match) for match in glob.glob(item, recursive=True))  # noqa: PTH207 - may be absolute
    return [path]
