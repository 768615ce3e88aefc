"""Fingerprints of a cleaned shard: what deduplication compares instead of the texts.

One row per record, in the shard's order: `row`, `exact` (xxh3-128 of the comparison form of the training
text, big-endian), `quality` (null when the record has no score), `chars`, `source_id`.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import xxhash

from zgcm.corpus.sample import training_text
from zgcm.corpus.text import comparison_form
from zgcm.io import atomic_open
from zgcm.records import Record, read_records

SCHEMA = pa.schema(
    [
        pa.field("row", pa.int32(), nullable=False),
        pa.field("exact", pa.binary(16), nullable=False),
        pa.field("quality", pa.float32()),
        pa.field("chars", pa.int32(), nullable=False),
        pa.field("source_id", pa.string(), nullable=False),
    ]
)
ROWS_A_GROUP = 1 << 16


def exact_fingerprint(text: str) -> bytes:
    """16 bytes that two texts share when they differ only in case, blanks and Unicode compatibility."""
    return xxhash.xxh3_128_digest(comparison_form(text).encode("utf-8", "surrogatepass"))


def fingerprint_row(row: int, record: Record) -> dict[str, Any]:
    text = training_text(record["data"], record["text_fields"])
    return {
        "row": row,
        "exact": exact_fingerprint(text),
        "quality": record["metrics"].get("quality_score"),
        "chars": len(text),
        "source_id": record["source_id"],
    }


def write_fingerprints(cleaned: Path, target: Path) -> int:
    """Write the fingerprints of a cleaned shard and return how many. Streams; same records, same bytes."""
    rows: list[dict[str, Any]] = []
    count = 0
    with (
        atomic_open(target) as stream,
        pyarrow.parquet.ParquetWriter(stream, SCHEMA, compression="zstd") as out,
    ):
        for count, record in enumerate(read_records(cleaned), 1):
            rows.append(fingerprint_row(count - 1, record))
            if len(rows) == ROWS_A_GROUP:
                out.write_table(pa.Table.from_pylist(rows, SCHEMA))
                rows.clear()
        out.write_table(pa.Table.from_pylist(rows, SCHEMA))
    return count
