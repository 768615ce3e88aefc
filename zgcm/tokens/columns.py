"""Arrow columns straight from memory. pyarrow's own conversions import pandas: 0.4 s in every process."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zgcm.errors import ZgcmError
from zgcm.io import atomic_open

_ARROW = {np.dtype(np.int32): pa.int32(), np.dtype(np.float32): pa.float32()}


def numbers(values: np.ndarray) -> pa.Array:
    """An int32 or float32 column without nulls."""
    data = np.ascontiguousarray(values)
    return pa.Array.from_buffers(_ARROW[data.dtype], len(data), [None, pa.py_buffer(data)])


def lists(values: np.ndarray, lengths: np.ndarray) -> pa.Array:
    """A column of int32 lists laid end to end in `values` (int32)."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    kind = pa.list_(pa.field("item", pa.int32(), nullable=False))
    return pa.Array.from_buffers(
        kind, len(lengths), [None, pa.py_buffer(offsets)], children=[numbers(values)]
    )


def names(values: Sequence[str], codes: np.ndarray) -> pa.Array:
    """A string column, dictionary-encoded: row i is `values[codes[i]]`."""
    texts = [value.encode() for value in values]
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(texts))]
    strings = pa.Array.from_buffers(pa.string(), len(texts), buffers)
    return pa.DictionaryArray.from_arrays(numbers(codes.astype(np.int32)), strings)


def fingerprints(data: np.ndarray) -> pa.Array:
    """A binary(16) column from uint8 (N, 16)."""
    return pa.Array.from_buffers(pa.binary(16), len(data), [None, pa.py_buffer(np.ascontiguousarray(data))])


def values(column: pa.Array | pa.ChunkedArray, kind: np.dtype) -> np.ndarray:
    """The numbers of a column without nulls; its 16-byte values with `kind` V16."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.frombuffer(array.buffers()[1] or b"", kind)[array.offset : array.offset + len(array)]


def write_columns(path: Path, columns: dict[str, pa.Array]) -> None:
    """A parquet file, atomically. Same columns, same bytes."""
    table = pa.Table.from_arrays(list(columns.values()), list(columns))
    with atomic_open(path) as stream:
        pq.write_table(table, stream, compression="zstd")


def check_columns(path: Path, schema: pa.Schema, *, made_by: str) -> None:
    """Raises ZgcmError naming the command that makes a missing or damaged parquet file, or one whose columns
    are not those of the schema: another type would be read as other numbers."""
    if not path.exists():
        raise ZgcmError("A file is missing", where=str(path), hint=f"make it with: {made_by}")
    try:
        found = pq.read_schema(path)
    except pa.ArrowInvalid as error:
        raise _unfit(path, str(error).splitlines()[0], "", made_by) from error
    for field in schema:
        index = found.get_field_index(field.name)
        other = found.field(index) if index >= 0 else None
        if other is None or not _alike(other.type, field.type):
            found_there = f"no column {field.name}" if other is None else f"{field.name}: {other.type}"
            raise _unfit(path, found_there, f"{field.name}: {field.type}", made_by)


def _alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether two types are the same; parquet gives the items of lists another name."""
    if pa.types.is_list(one) and pa.types.is_list(other):
        return one.value_type == other.value_type
    return bool(one == other)


def read_columns(path: Path, schema: pa.Schema, *, made_by: str) -> pa.Table:
    """Some columns of a parquet file, without nulls. Raises ZgcmError as `check_columns` does."""
    check_columns(path, schema, made_by=made_by)
    with pq.ParquetFile(path) as file:
        table = file.read(schema.names)
    for name in schema.names:
        if table[name].null_count:
            raise _unfit(path, f"{name}: {table[name].null_count:,} nulls", "none", made_by)
    return table


def _unfit(path: Path, found: str, expected: str, made_by: str) -> ZgcmError:
    return ZgcmError(
        "Not the parquet file that its step writes", where=str(path), found=found, expected=expected,
        hint=f"remove it and make it again with: {made_by}",
    )  # fmt: skip
