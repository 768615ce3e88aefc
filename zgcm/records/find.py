"""Which files of records a command line means."""

import glob
from collections.abc import Iterable
from pathlib import Path

from zgcm.errors import ZgcmError
from zgcm.records.files import FORMATS, record_format


def find_files(wanted: Iterable[str]) -> list[Path]:
    """Files, the readable files below directories, and those that match patterns, in the order given.

    Raises ZgcmError for a path that is no file, and for a file that nobody reads.
    """
    found = [path for item in wanted for path in _expand(item)]
    for path in found:
        record_format(path)
        if not path.is_file():
            raise ZgcmError("No such file", where=str(path), hint="check the path")
    return found


def _expand(item: str) -> list[Path]:
    path = Path(item)
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if file.name.endswith(FORMATS))
    if glob.has_magic(item):
        return sorted(Path(match) for match in glob.glob(item, recursive=True))  # noqa: PTH207 - may be absolute
    return [path]
