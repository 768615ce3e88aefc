"""Records: one JSON object a line in .jsonl, .jsonl.gz or .jsonl.zst, or one row of a .parquet file.

    for record in read_records(path): ...
    with open_records(path) as write: write(record)

Reading streams; lines end at `\\n` and nowhere else (U+2028 inside a string is data). What cannot be read is
a ZgcmError with `file:line:column`. Writing is atomic and deterministic: same records, same bytes.
"""

import contextlib
import gzip
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import orjson
import zstandard

from zgcm.errors import ZgcmError
from zgcm.io import atomic_open
from zgcm.records.badlines import BadLine, bad_line
from zgcm.records.lines import MAX_LINE_BYTES, WHOLE, Line, Part, read_lines
from zgcm.records.parse import Record, Refused, parse_checked, parse_object
from zgcm.records.rows import read_rows

FORMATS = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet")
ZSTD_LEVEL = 3


def read_records(path: Path) -> Iterator[Record]:
    """The records of a file, in order. Raises ZgcmError naming `file:line:column` (parquet: `file:row`)."""
    return (record for _, record in read_numbered(path))


def read_numbered(path: Path, *, checked: bool = False) -> Iterator[tuple[int, Record]]:
    """Like `read_records`, each with the number of its line (or parquet row), counted from 1. `checked`, for
    files of others: also refuses what cannot be kept as it is, such as integers beyond 64 bits."""
    return _read(path, WHOLE, parse_checked if checked else parse_object, _raise)


def read_checked(path: Path, part: Part, on_bad: Callable[[BadLine], None]) -> Iterator[Record]:
    """The records of a file of others, or of a part of it; each line that is none goes to `on_bad`.

    Damage of the file itself (a truncated archive, an unreadable parquet file) raises ZgcmError.
    """
    return (record for _, record in _read(path, part, parse_checked, on_bad))


def parse_lines(
    path: Path, part: Part, lines: list[bytes], before: int, offset: int
) -> Iterator[tuple[Line, Record]]:
    """Records of some lines of a part: `before` lines of it come before them, and the first begins at
    `offset`. Raises ZgcmError naming `file:line:column`."""
    for number, with_end in enumerate(lines, before + 1):
        data = with_end.removesuffix(b"\n")
        line = Line(number, offset, len(data), data)
        offset += len(data) + 1
        yield from ((line, record) for _, record in _parsed(path, part, line, parse_object, _raise))


def record_format(path: Path) -> str:
    """The ending that says how a file is read. Raises ZgcmError for endings that nobody reads."""
    for ending in FORMATS:
        if path.name.endswith(ending):
            return ending
    raise ZgcmError(
        "Not a file of records", where=str(path), found=f"the ending {path.suffix!r}",
        expected=", ".join(FORMATS), hint="convert or rename the file",
    )  # fmt: skip


@contextlib.contextmanager
def open_records(path: Path) -> Iterator[Callable[[Record], None]]:
    """Write records to `path` through the yielded function; the file appears only when the block succeeds.

    Keys are sorted at every level. Compression follows the name (.jsonl, .jsonl.gz, .jsonl.zst) and holds no
    time stamp and no thread count, so the bytes depend on the records alone.
    """
    with atomic_open(path) as stream, _compressed(path, stream) as out:

        def write(record: Record) -> None:
            out.write(dump_record(record))

        yield write


def write_records(path: Path, records: Iterable[Record]) -> int:
    """Write all records atomically and return how many."""
    count = 0
    with open_records(path) as write:
        for count, record in enumerate(records, 1):  # noqa: B007 - the count is the result
            write(record)
    return count


def dump_record(record: Record) -> bytes:
    """The line of a record, keys sorted, with its `\\n`. Values JSON does not know become their `str`."""
    return orjson.dumps(record, default=str, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def record_sha256(data: Record) -> str:
    """Digest of a record's `data` as the published cleaner defines it: Python's own JSON with sorted keys,
    its default separators, and non-ASCII left as it is."""
    fields = [_python_json(key) + b": " + _python_json(data[key]) for key in sorted(data)]
    return hashlib.sha256(b"{" + b", ".join(fields) + b"}").hexdigest()


def _python_json(value: Any) -> bytes:
    """What `json.dumps` would write. Of a string orjson writes the same, six times faster; floats and
    separators differ, so everything else is left to `json`."""
    if type(value) is str:
        try:
            return orjson.dumps(value)
        except orjson.JSONEncodeError:  # a lone surrogate
            pass
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return text.encode("utf-8", "surrogatepass")


def _read(
    path: Path, part: Part, parse: Callable[[bytes], Record], on_bad: Callable[[BadLine], None]
) -> Iterator[tuple[int, Record]]:
    if record_format(path) == ".parquet":
        return read_rows(path, part, on_bad)
    return _json_lines(path, part, parse, on_bad)


def _json_lines(
    path: Path, part: Part, parse: Callable[[bytes], Record], on_bad: Callable[[BadLine], None]
) -> Iterator[tuple[int, Record]]:
    for line in read_lines(path, part):
        yield from _parsed(path, part, line, parse, on_bad)


def _parsed(
    path: Path, part: Part, line: Line, parse: Callable[[bytes], Record], on_bad: Callable[[BadLine], None]
) -> Iterator[tuple[int, Record]]:
    """The record of a line; nothing for a blank line and a bad one."""
    try:
        if line.size > MAX_LINE_BYTES:
            raise _too_long(line)
        if line.data.strip():
            yield line.number, parse(line.data)
    except Refused as refused:
        on_bad(bad_line(path, part, line, refused))


def _too_long(line: Line) -> Refused:
    return Refused("line_too_long", "A line is too long", found=f"{line.size:,} bytes",
                   expected=f"at most {MAX_LINE_BYTES:,}", hint="write one JSON object a line")  # fmt: skip


def _raise(bad: BadLine) -> None:
    raise bad.error()


@contextlib.contextmanager
def _compressed(path: Path, stream: BinaryIO) -> Iterator[BinaryIO]:
    if path.name.endswith(".zst"):
        context = zstandard.ZstdCompressor(level=ZSTD_LEVEL, write_checksum=True)
        with context.stream_writer(stream, closefd=False) as packed:
            yield cast(BinaryIO, packed)
    elif path.name.endswith(".gz"):
        with gzip.GzipFile(fileobj=stream, mode="wb", filename="", mtime=0) as packed_gzip:
            yield cast(BinaryIO, packed_gzip)
    else:
        yield stream


def training_text(data: Record, text_fields: tuple[str, ...] | list[str]) -> str:
    """The text that a record trains on; also of records read back from a cleaned shard."""
    if len(text_fields) == 1:  # most records, several times each
        value = data.get(text_fields[0])
        return value if isinstance(value, str) else ""
    values = (data.get(name) for name in text_fields)
    return "\n".join(value for value in values if isinstance(value, str) and value)
