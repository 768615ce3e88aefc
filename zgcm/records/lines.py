"""Lines of plain, gzip and zstd files, streaming, and parts of one file that are read as shards of their own.

    for line in read_lines(path, Part(2, of=8)): ...

Lines end at `\\n` and nowhere else. Plain files are cut at byte positions, each line going to the part that
holds its first byte; compressed ones cannot be entered in the middle, so part i takes every n-th line and
each part decompresses the whole file.
"""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

import zstandard

from zgcm.errors import ZgcmError

CHUNK_BYTES = 1 << 16
"""Compressed bytes decompressed at a time: bounds memory whatever the file's compression ratio."""
MAX_LINE_BYTES = 1 << 28
"""Longer lines are not held in memory; reading one as JSON takes some six times its length."""
UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Part:
    """Part `index` of `of`; together the parts are the whole file, each line once."""

    index: int = 0
    of: int = 1


WHOLE = Part()


class Line(NamedTuple):
    """A line without its `\\n`. `data` is cut where `size` exceeds MAX_LINE_BYTES."""

    number: int
    """From 1; counted from the part's beginning where `is_relative` says so."""
    offset: int
    """Of its first byte in the file, or in the decompressed text."""
    size: int
    data: bytes


def read_lines(path: Path, part: Part = WHOLE) -> Iterator[Line]:
    """The lines of a file or of a part of it. Raises ZgcmError for a missing or damaged file."""
    if is_plain(path) and part.of > 1:
        yield from _plain_part(path, part)
        return
    for number, (offset, size, data) in enumerate(_assembled(_chunks(path), 0), 1):
        if number == 1 and data.startswith(UTF16):
            raise ZgcmError(
                "The file is UTF-16, not UTF-8", where=str(path),
                found=f"it begins with the bytes {data[:2].hex(' ')}",
                hint=f"convert it: iconv -f UTF-16 -t UTF-8 {path.name}",
            )  # fmt: skip
        if (number - 1) % part.of == part.index:
            yield Line(number, offset, size, data)


def read_line_blocks(path: Path, part: Part = WHOLE) -> Iterator[tuple[int, list[bytes]]]:
    """The lines of a file some at a time, and where the first of them begins: faster than `read_lines` for
    short ones. Of a plain file, which alone is read in parts here, they keep their `\\n`."""
    if is_plain(path):
        yield from _plain_blocks(path, part)
        return
    offset = 0
    pieces: list[bytes] = []
    for chunk in _chunks(path):
        first, *others = chunk.split(b"\n")
        pieces.append(first)
        if others:
            lines = [b"".join(pieces), *others[:-1]]
            yield offset, lines
            offset += sum(map(len, lines)) + len(lines)
            pieces = [others[-1]]
    if last := b"".join(pieces):
        yield offset, [last]


def _plain_blocks(path: Path, part: Part) -> Iterator[tuple[int, list[bytes]]]:
    with _opened(path) as stream:
        start, end = part_range(path, part)
        if start:
            stream.seek(start - 1)
            stream.readline()  # a line that begins before belongs to the part before
        while (offset := stream.tell()) < end:
            wanted = min(CHUNK_BYTES, end - offset)
            # readlines ends when its lines exceed what it is given; 0 would mean all of the file
            lines = stream.readlines(wanted - 1) if wanted > 1 else [stream.readline()]
            if not lines or not lines[0]:
                return  # the file was cut meanwhile
            yield offset, lines


def is_plain(path: Path) -> bool:
    return not path.name.endswith((".gz", ".zst"))


def line_number(path: Path, part: Part, line: Line) -> int:
    """The number of a line in its file, from 1. Parts of plain files do not know how many lines lie before
    them; those are counted only when somebody asks."""
    if part.of == 1 or not is_plain(path):
        return line.number
    before = 0
    with path.open("rb") as stream:
        for start in range(0, line.offset, CHUNK_BYTES):
            before += stream.read(min(CHUNK_BYTES, line.offset - start)).count(b"\n")
    return before + 1


def part_range(path: Path, part: Part) -> tuple[int, int]:
    """Where a part begins and ends on disk, in bytes; the parts lie end to end."""
    size = path.stat().st_size
    return size * part.index // part.of, size * (part.index + 1) // part.of


def part_bytes(path: Path, part: Part) -> int:
    """Size of a part as it lies on disk; the sizes of all parts add up to the file's."""
    start, end = part_range(path, part)
    return end - start


def _plain_part(path: Path, part: Part) -> Iterator[Line]:
    with _opened(path) as stream:
        start, end = part_range(path, part)
        begin = max(start - 1, 0)  # so that a line which begins exactly at `start` is seen to begin there
        stream.seek(begin)
        lines = _assembled(_read(stream), begin)
        if start:
            next(lines, None)
        for number, (offset, length, data) in enumerate(lines, 1):
            if offset >= end:
                return
            yield Line(number, offset, length, data)


def _assembled(chunks: Iterable[bytes], offset: int) -> Iterator[tuple[int, int, bytes]]:
    """Offset, size and bytes of each line; of bytes beyond MAX_LINE_BYTES only the size is kept."""
    pieces: list[bytes] = []
    size = 0
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        if size <= MAX_LINE_BYTES:
            pieces.append(first)
        size += len(first)
        if not others:
            continue
        yield offset, size, b"".join(pieces)
        offset += size + 1
        for line in others[:-1]:
            yield offset, len(line), line
            offset += len(line) + 1
        pieces, size = [others[-1]], len(others[-1])
    if size:
        yield offset, size, b"".join(pieces)


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError as error:
        raise ZgcmError("A file of records is missing", where=str(path), hint="check the path") from error
    except IsADirectoryError as error:
        raise ZgcmError(
            "Expected a file, found a directory", where=str(path), hint="name the files"
        ) from error


def _chunks(path: Path) -> Iterator[bytes]:
    with _opened(path) as stream:
        if path.name.endswith(".gz"):
            yield from _gzip_chunks(path, stream)
        elif path.name.endswith(".zst"):
            yield from _zstd_chunks(path, stream)
        else:
            yield from _read(stream)


def _read(stream: BinaryIO) -> Iterator[bytes]:
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
