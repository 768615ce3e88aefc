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
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import orjson
import zstandard

from zgcm.errors import ZgcmError
from zgcm.io import atomic_open

Record = dict[str, Any]

FORMATS = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet")
CHUNK_BYTES = 1 << 16
"""Compressed bytes decompressed at a time: bounds memory whatever the file's compression ratio."""
ZSTD_LEVEL = 3
PARQUET_ROWS = 1024
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_records(path: Path) -> Iterator[Record]:
    """The records of a file, in order. Raises ZgcmError naming `file:line:column` (parquet: `file:row`)."""
    return (record for _, record in read_numbered(path))


def read_numbered(path: Path) -> Iterator[tuple[int, Record]]:
    """Like `read_records`, each with the number of its line (or parquet row), counted from 1."""
    if record_format(path) == ".parquet":
        return _parquet_rows(path)
    return _json_lines(path)


def record_format(path: Path) -> str:
    """The ending that says how a file is read. Raises ZgcmError for endings that nobody reads."""
    for ending in FORMATS:
        if path.name.endswith(ending):
            return ending
    raise ZgcmError(
        "Not a file of records", where=str(path), found=f"the ending {path.suffix!r}",
        expected=", ".join(FORMATS), hint="convert or rename the file",
    )  # fmt: skip


def read_lines(path: Path) -> Iterator[bytes]:
    """Lines of a plain, gzip or zstd file without their `\\n`. Raises ZgcmError for a damaged file."""
    pieces: list[bytes] = []
    for chunk in _chunks(path):
        first, *others = chunk.split(b"\n")
        pieces.append(first)
        if others:
            yield b"".join(pieces)
            yield from others[:-1]
            pieces = [others[-1]]
    if last := b"".join(pieces):
        yield last


def parse_record(line: bytes, path: Path, number: int) -> Record:
    """One line as an object. Raises ZgcmError with the column (in characters, from 1)."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise _not_json(line, path, number, error) from error
    if not isinstance(value, dict):
        raise ZgcmError(
            "A record is a JSON object", where=f"{path}:{number}:1", found=_JSON_TYPES[type(value)],
            hint="write one object a line, for instance {\"id\": \"1\", \"text\": \"...\"}",
        )  # fmt: skip
    return value


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
    digest = hashlib.sha256()
    separator = b"{"
    for key in sorted(data):
        digest.update(separator + _python_json(key) + b": " + _python_json(data[key]))
        separator = b", "
    digest.update(b"}" if data else b"{}")
    return digest.hexdigest()


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


_JSON_TYPES = {list: "an array", str: "a string", int: "a number", float: "a number", bool: "a boolean",
               type(None): "null"}  # fmt: skip


def _json_lines(path: Path) -> Iterator[tuple[int, Record]]:
    for number, line in enumerate(read_lines(path), 1):
        if number == 1:
            line = line.removeprefix(BYTE_ORDER_MARK)
        if line.strip():
            yield number, parse_record(line, path, number)


def _not_json(line: bytes, path: Path, number: int, error: orjson.JSONDecodeError) -> ZgcmError:
    try:
        line.decode()
    except UnicodeDecodeError as broken:
        column = len(line[: broken.start].decode()) + 1
        return ZgcmError(
            "Not valid UTF-8", where=f"{path}:{number}:{column}", found=f"byte 0x{line[broken.start]:02x}",
            hint="convert the file to UTF-8, for instance with iconv",
        )  # fmt: skip
    return ZgcmError(
        "Not valid JSON", where=f"{path}:{number}:{error.colno}", found=str(error.msg),
        expected="one JSON object a line", hint="correct or remove that line",
    )  # fmt: skip


def _chunks(path: Path) -> Iterator[bytes]:
    try:
        stream = path.open("rb")
    except FileNotFoundError as error:
        raise ZgcmError("A file of records is missing", where=str(path), hint="check the path") from error
    except IsADirectoryError as error:
        raise ZgcmError(
            "Expected a file, found a directory", where=str(path), hint="name the files"
        ) from error
    with stream:
        if path.name.endswith(".gz"):
            yield from _gzip_chunks(path, stream)
        elif path.name.endswith(".zst"):
            yield from _zstd_chunks(path, stream)
        else:
            while chunk := stream.read(CHUNK_BYTES):
                yield chunk


def _gzip_chunks(path: Path, stream: BinaryIO) -> Iterator[bytes]:
    try:
        with gzip.GzipFile(fileobj=stream) as unpacked:
            while chunk := unpacked.read(CHUNK_BYTES):
                yield chunk
    except EOFError as error:
        raise _truncated(path, "gzip") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise _damaged(path, "gzip", error) from error


def _zstd_chunks(path: Path, stream: BinaryIO) -> Iterator[bytes]:
    """Frame by frame: zstandard's own reader ends silently at a truncated frame, this does not."""
    context = zstandard.ZstdDecompressor()
    frame = context.decompressobj()
    fed = False
    try:
        while chunk := stream.read(CHUNK_BYTES):
            while chunk:
                yield frame.decompress(chunk)
                chunk, fed = frame.unused_data, True
                if frame.eof:
                    frame, fed = context.decompressobj(), False
    except zstandard.ZstdError as error:
        raise _damaged(path, "zstd", error) from error
    if fed:
        raise _truncated(path, "zstd")


def _truncated(path: Path, kind: str) -> ZgcmError:
    return ZgcmError(
        f"The {kind} file ends in the middle of its data", where=str(path),
        found=f"{path.stat().st_size:,} bytes, truncated", hint="copy or download it again",
    )  # fmt: skip


def _damaged(path: Path, kind: str, error: Exception) -> ZgcmError:
    return ZgcmError(
        f"Not a valid {kind} file", where=str(path), found=str(error), hint="copy or download it again"
    )


def _parquet_rows(path: Path) -> Iterator[tuple[int, Record]]:
    import pyarrow
    import pyarrow.parquet

    if not path.exists():
        raise ZgcmError("A file of records is missing", where=str(path), hint="check the path")
    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as table:
            for batch in table.iter_batches(batch_size=PARQUET_ROWS):
                for row in batch.to_pylist():
                    number += 1
                    yield number, _plain_json(row)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise ZgcmError(
            "Not a readable parquet file", where=f"{path}:{number + 1}", found=str(error).splitlines()[0],
            hint="copy or download it again",
        )  from error  # fmt: skip


def _plain_json(row: Record) -> Record:
    """Times, decimals and bytes as strings, NaN as null: the same record as if it had been read from JSON, so
    its digest can be checked after it was written."""
    return orjson.loads(orjson.dumps(row, default=str))


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
