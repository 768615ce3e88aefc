"""What only reading a document's text can tell, kept beside the index so that no later step reads it again.

`tokens/{source}/{shard}.documents.parquet`, one row a document: `complexity` (float32, NaN where it has no
meaning) and `learned` (the token ranges of assistant turns: start, end, start, end, ...).
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zgcm.io import atomic_open
from zgcm.tokens.columns import lists, numbers, read_columns, values

SCHEMA = pa.schema(
    [
        pa.field("complexity", pa.float32(), nullable=False),
        pa.field("learned", pa.list_(pa.field("item", pa.int32(), nullable=False)), nullable=False),
    ]
)


@contextlib.contextmanager
def write_facts(path: Path) -> Iterator[Callable[[list[float], list[list[int]]], None]]:
    """Write a facts file atomically: the complexities and learned ranges of some documents at a time."""
    with atomic_open(path) as stream, pq.ParquetWriter(stream, SCHEMA, compression="zstd") as writer:

        def write(complexities: list[float], learned: list[list[int]]) -> None:
            marks = np.array([mark for spans in learned for mark in spans], np.int32)
            lengths = np.fromiter(map(len, learned), np.int32, len(learned))
            columns = [numbers(np.array(complexities, np.float32)), lists(marks, lengths)]
            writer.write_table(pa.Table.from_arrays(columns, schema=SCHEMA))

        yield write


def read_complexities(path: Path) -> np.ndarray:
    """float32, one per document."""
    return values(_column(path, "complexity"), np.dtype(np.float32))


def read_learned(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """All marks end to end (int32) and where each document's begin and end (int32, documents + 1)."""
    column = _column(path, "learned").combine_chunks()
    if not len(column):
        return np.empty(0, np.int32), np.zeros(1, np.int32)
    marks, offsets = (values(part, np.dtype(np.int32)) for part in (column.values, column.offsets))
    return marks, offsets


def _column(path: Path, name: str) -> pa.ChunkedArray:
    schema = pa.schema([SCHEMA.field(name)])
    return read_columns(path, schema, made_by="zgcm index SOURCE SHARD")[name]
