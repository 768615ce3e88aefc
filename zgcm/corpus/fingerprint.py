"""Fingerprints of a cleaned shard: what deduplication compares instead of the texts.

One row per record, in the shard's order: `row`, `exact` (xxh3-128 of the comparison form of the training
text, big-endian), `quality` (null when the record has no score), `chars`, `source_id`, `decision`, `simhash`
(null unless the source asks for the published near-duplicates).
"""

from collections.abc import Iterator
from itertools import batched
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import xxhash

from zgcm.corpus.simhash import simhash
from zgcm.corpus.text import comparison_form
from zgcm.io import atomic_open
from zgcm.records import Record, read_records, training_text

SCHEMA = pa.schema(
    [
        pa.field("row", pa.int32(), nullable=False),
        pa.field("exact", pa.binary(16), nullable=False),
        pa.field("quality", pa.float32()),
        pa.field("chars", pa.int32(), nullable=False),
        pa.field("source_id", pa.string(), nullable=False),
        pa.field("decision", pa.string(), nullable=False),
        pa.field("simhash", pa.uint64()),
    ]
)
ROWS_A_GROUP = 1 << 16

Fingerprint = tuple[bytes, float | None, int, str, str, int | None]
"""Exact fingerprint, quality, characters, source_id, decision, SimHash."""


def exact_fingerprint(text: str) -> bytes:
    """16 bytes that two texts share when they differ only in case, blanks and Unicode compatibility."""
    return xxhash.xxh3_128_digest(comparison_form(text).encode("utf-8", "surrogatepass"))


def fingerprint(record: Record, simhash_ngram: int | None = None) -> Fingerprint:
    text = training_text(record["data"], record["text_fields"])
    quality = record["metrics"].get("quality_score")
    bits = None if simhash_ngram is None else simhash(text, simhash_ngram)
    return exact_fingerprint(text), quality, len(text), record["source_id"], record["decision"], bits


def write_fingerprints(cleaned: Path, target: Path, simhash_ngram: int | None = None) -> int:
    """Write the fingerprints of a cleaned shard and return how many. Streams; same records, same bytes."""
    count = 0
    with atomic_open(target) as stream, pyarrow.parquet.ParquetWriter(stream, SCHEMA) as out:
        for rows in _groups(cleaned, simhash_ngram):
            out.write_batch(_columns(rows, start=count))
            count += len(rows)
    return count


def _groups(cleaned: Path, simhash_ngram: int | None) -> Iterator[tuple[Fingerprint, ...]]:
    found = (fingerprint(record, simhash_ngram) for record in read_records(cleaned))
    return batched(found, ROWS_A_GROUP)


def _columns(rows: tuple[Fingerprint, ...], start: int) -> pa.RecordBatch:
    """Arrow columns straight from buffers: `pa.array` of Python values would import pandas, half a second a
    shard."""
    exact, quality, chars, names, decisions, simhashes = zip(*rows, strict=True)
    columns: list[list[Any]] = [
        [None, np.arange(start, start + len(rows), dtype=np.int32)],
        [None, b"".join(exact)],
        [_known(quality), np.array([np.nan if value is None else value for value in quality], np.float32)],
        [None, np.array(chars, np.int32)],
        _strings(names),
        _strings(decisions),
        [_known(simhashes), np.array([value or 0 for value in simhashes], np.uint64)],
    ]
    arrays = [
        pa.Array.from_buffers(
            field.type, len(rows), [data if data is None else pa.py_buffer(data) for data in column]
        )
        for field, column in zip(SCHEMA, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _known(column: tuple[Any, ...]) -> np.ndarray:
    return np.packbits([value is not None for value in column], bitorder="little")


def _strings(column: tuple[str, ...]) -> list[Any]:
    encoded = [value.encode() for value in column]
    return [None, np.cumsum([0, *map(len, encoded)], dtype=np.int32), b"".join(encoded)]
