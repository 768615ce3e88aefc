"""Megatron's indexed dataset: token ids in `.bin`, where each sequence lies in `.idx`.

.idx, little-endian: `MMIDIDX\\0\\0`, u64 version 1, u8 dtype code, u64 sequences, u64 documents + 1,
i32 length of each sequence, i64 byte offset of each, i64 first sequence of each document and the end.
Here every document is one sequence. Bytes equal those of megatron-core's IndexedDatasetBuilder (a test),
without importing it: its import takes seconds.
"""

import contextlib
import hashlib
import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from zgcm.errors import ZgcmError
from zgcm.io import atomic_open

MAGIC = b"MMIDIDX\x00\x00"
VERSION = 1
DTYPE_CODES = {
    "uint8": 1,
    "int8": 2,
    "int16": 3,
    "int32": 4,
    "int64": 5,
    "float64": 6,
    "float32": 7,
    "uint16": 8,
}
_HEADER = struct.Struct("<9sQBQQ")
BLOCK = 1 << 20
"""Sequences whose offsets are computed at a time when an .idx is written: 8 MB."""


def token_dtype(vocab_size: int) -> np.dtype:
    """Megatron's rule: uint16 below 65,500 tokens, else int32."""
    return np.dtype(np.uint16 if vocab_size < 65500 else np.int32)


@dataclass
class Written:
    """What a finished writer leaves: counts and digests for the manifest. Digests are set on success."""

    documents: int = 0
    tokens: int = 0
    dtype: str = ""
    bin_sha256: str = ""
    idx_sha256: str = ""


class IndexedWriter:
    """Appends documents to a `.bin` and remembers their lengths (4 bytes each). Made by `write_indexed`."""

    def __init__(self, stream: BinaryIO, dtype: np.dtype) -> None:
        self.dtype = dtype
        self._stream, self._lengths, self._digest = stream, array("i"), hashlib.sha256()

    def append(self, tokens: np.ndarray, lengths: np.ndarray) -> None:
        """Documents laid end to end in `tokens`; `lengths` says where they end. Ids must fit the dtype."""
        assert int(lengths.sum()) == len(tokens), "lengths do not add up to the tokens"
        limits = np.iinfo(self.dtype)
        checked = tokens if tokens.dtype != self.dtype else tokens[:0]
        if len(checked) and not (limits.min <= int(checked.min()) and int(checked.max()) <= limits.max):
            raise ZgcmError(
                "A token id does not fit the data type of the index", found=f"id {int(tokens.max())}",
                expected=f"at most {limits.max} for {self.dtype.name}", hint="raise tokenizer.vocab_size",
            )  # fmt: skip
        data = (
            np.ascontiguousarray(tokens, self.dtype.newbyteorder("<")).data.cast("B") if len(tokens) else b""
        )
        self._digest.update(data)
        self._stream.write(data)
        self._lengths.frombytes(np.ascontiguousarray(lengths, np.int32).tobytes())

    def finish(self, index: BinaryIO) -> Written:
        """Write the .idx and return counts and digests."""
        lengths = np.frombuffer(self._lengths, np.int32)
        digest = hashlib.sha256()

        def put(data: bytes) -> None:
            digest.update(data)
            index.write(data)

        put(_HEADER.pack(MAGIC, VERSION, DTYPE_CODES[self.dtype.name], len(lengths), len(lengths) + 1))
        put(lengths.astype("<i4").tobytes())
        position = 0
        for start in range(0, len(lengths), BLOCK):
            ends = position + np.cumsum(lengths[start : start + BLOCK], dtype=np.int64) * self.dtype.itemsize
            put(np.concatenate([[position], ends[:-1]]).astype("<i8").tobytes())
            position = int(ends[-1])
        for start in range(0, len(lengths) + 1, BLOCK):
            put(np.arange(start, min(start + BLOCK, len(lengths) + 1), dtype="<i8").tobytes())
        return Written(
            len(lengths), position // self.dtype.itemsize, self.dtype.name, self._digest.hexdigest(),
            digest.hexdigest(),
        )  # fmt: skip


@contextlib.contextmanager
def write_indexed(prefix: Path, dtype: np.dtype) -> Iterator[tuple[IndexedWriter, Written]]:
    """Write `prefix`.bin and `prefix`.idx; both appear, the .idx last, only when the block succeeds.

    Yields the writer and a record that is filled in when the block ends.
    """
    written = Written()
    index_path(prefix).unlink(missing_ok=True)  # an old index must never describe new data
    with atomic_open(index_path(prefix)) as index, atomic_open(data_path(prefix)) as data:
        writer = IndexedWriter(data, dtype)
        yield writer, written
        written.__dict__.update(writer.finish(index).__dict__)


@dataclass(frozen=True)
class Indexed:
    """An indexed dataset, memory-mapped: tokens of all documents, and each document's length and start."""

    tokens: np.ndarray
    lengths: np.ndarray
    starts: np.ndarray
    """In tokens, not bytes."""

    def __len__(self) -> int:
        return len(self.lengths)

    def document(self, row: int) -> np.ndarray:
        """Token ids of one document; a view of the file."""
        start = self.starts[row]
        return self.tokens[start : start + self.lengths[row]]


def open_indexed(prefix: Path) -> Indexed:
    """Map an indexed dataset. Raises ZgcmError when a file is missing, damaged, or the two do not match."""
    lengths, starts, dtype = _read_index(index_path(prefix))
    expected = int(lengths.sum(dtype=np.int64)) * dtype.itemsize
    path = data_path(prefix)
    found = path.stat().st_size if path.is_file() else None
    if found != expected:
        raise ZgcmError(
            "Token data do not match their index", where=str(path),
            found="no such file" if found is None else f"{found:,} bytes", expected=f"{expected:,} bytes",
            hint="remove both files and make them again",
        )  # fmt: skip
    tokens = np.memmap(path, dtype, "r") if expected else np.empty(0, dtype)
    return Indexed(tokens, lengths, starts)


def read_lengths(prefix: Path) -> np.ndarray:
    """Tokens of each document (int32), from the .idx alone."""
    return _read_index(index_path(prefix))[0]


def without_ending(prefix: Path) -> Path:
    """An index is named without .bin and .idx; who types one of them means the index."""
    return prefix.with_suffix("") if prefix.suffix in (".bin", ".idx") else prefix


def data_path(prefix: Path) -> Path:
    return Path(f"{prefix}.bin")


def index_path(prefix: Path) -> Path:
    return Path(f"{prefix}.idx")


def _read_index(path: Path) -> tuple[np.ndarray, np.ndarray, np.dtype]:
    try:
        raw = np.memmap(path, np.uint8, "r")
    except FileNotFoundError as error:
        raise ZgcmError(
            "A token index is missing", where=str(path), hint="run the step that makes it"
        ) from error
    except ValueError as error:  # an empty file cannot be mapped
        raise _damaged(path, "0 bytes") from error
    if len(raw) < _HEADER.size:
        raise _damaged(path, f"{len(raw)} bytes")
    magic, version, code, sequences, documents = _HEADER.unpack_from(raw)
    names = {number: name for name, number in DTYPE_CODES.items()}
    if magic != MAGIC or version != VERSION or code not in names:
        raise _damaged(path, f"magic {magic!r}, version {version}, dtype code {code}")
    size = _HEADER.size + sequences * (4 + 8) + documents * 8
    if len(raw) != size:
        raise _damaged(path, f"{len(raw):,} bytes instead of {size:,}")
    dtype = np.dtype(names[code])
    lengths = np.frombuffer(raw, "<i4", sequences, _HEADER.size)
    offsets = np.frombuffer(raw, "<i8", sequences, _HEADER.size + 4 * sequences)
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    if (wrong := (lengths < 0) | (starts * dtype.itemsize != offsets)).any():
        raise _damaged(path, f"document {int(np.argmax(wrong))} does not lie where the one before it ends")
    return lengths, starts, dtype


def _damaged(path: Path, found: str) -> ZgcmError:
    return ZgcmError(
        "Not a Megatron token index", where=str(path), found=found, hint="remove it and make it again"
    )
