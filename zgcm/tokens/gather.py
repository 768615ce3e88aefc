"""An output shard of a mix: token spans of its selected documents copied in order. `zgcm gather`

Nothing is tokenized a second time; a document of the output is, byte for byte, a document of an index.
"""

from collections.abc import Iterator
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zgcm.errors import ZgcmError
from zgcm.io import read_json, sha256_file, write_json
from zgcm.layout import Layout
from zgcm.tokens.columns import check_columns
from zgcm.tokens.indexed import Indexed, open_indexed, token_dtype, write_indexed
from zgcm.tokens.tokenizer import tokenizer_facts

BATCH = 1 << 14
"""Documents copied at a time."""
OPEN_INDEXES = 200
"""Source shards mapped at once; each holds two files open, and systems allow 1,024."""

SELECTION = pa.schema(
    [
        ("source", pa.dictionary(pa.int32(), pa.string())),
        ("shard", pa.dictionary(pa.int32(), pa.string())),
        ("row", pa.int32()),
    ]
)
Reference = tuple[str, str, int]
"""Source, shard, row of a document."""


def gather_shard(
    layout: Layout, mix: str, shard: str, tokenizer: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Write `{shard}_text_document.bin/.idx` and its manifest `{shard}.json`; returns the manifest.

    `tokenizer` are the facts of the tokenizer's directory where that is not the layout's. Raises ZgcmError
    when a selection or an index is missing or a selected row does not exist.
    """
    tokenizer = tokenizer or tokenizer_facts(layout.tokenizer)
    path = layout.selection(mix, shard)
    manifest = layout.mix(mix) / f"{shard}.json"
    manifest.unlink(missing_ok=True)
    read = open_indexes(layout)
    with write_indexed(layout.mix_prefix(mix, shard), token_dtype(tokenizer["vocab_size"])) as (
        writer,
        written,
    ):
        for batch in selected(layout, mix, shard):
            documents = [take(read, reference, path) for reference in batch]
            writer.append(np.concatenate(documents), np.array([len(d) for d in documents], np.int64))
    facts = {**asdict(written), "mix": mix, "shard": shard, "tokenizer": tokenizer["digest"]}
    write_json(manifest, facts)
    return facts


def selected(layout: Layout, mix: str, shard: str) -> Iterator[list[Reference]]:
    """References of a selection in order, some at a time. Raises ZgcmError for one that is missing, damaged,
    or not the one that the plan describes."""
    path, made_by = layout.selection(mix, shard), f"zgcm mix {mix}"
    if not path.exists():
        raise ZgcmError("A selection is missing", where=str(path), hint=f"make it with: {made_by}")
    check_columns(path, SELECTION, made_by=made_by)
    if layout.plan(mix).exists():
        shards = read_json(layout.plan(mix), made_by=made_by)["shards"]
        entry = shards.get(shard) if isinstance(shards, dict) else None
        planned = entry.get("selection_sha256") if isinstance(entry, dict) else None
        if (found := sha256_file(path)) != planned:
            raise ZgcmError(
                "A selection is not the one that the plan describes", where=str(path),
                found=f"sha256 {found}", expected=f"sha256 {planned}", hint=f"plan the mix again: {made_by}",
            )  # fmt: skip
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(BATCH, columns=SELECTION.names):
            yield list(zip(*(batch[name].to_pylist() for name in SELECTION.names), strict=True))


def open_indexes(layout: Layout) -> Any:
    """A function (source, shard) -> Indexed that keeps the most recently used ones mapped."""

    @lru_cache(OPEN_INDEXES)
    def read(source: str, shard: str) -> Indexed:
        return open_indexed(layout.index_prefix(source, shard))

    return read


def take(read: Any, reference: Reference, selection: Path) -> np.ndarray:
    """Tokens of one selected document."""
    source, shard, row = reference
    indexed = read(source, shard)
    if not 0 <= row < len(indexed):
        raise ZgcmError(
            "A selected document does not exist", where=str(selection), found=f"{source}/{shard} row {row}",
            expected=f"rows below {len(indexed)}", hint="plan the mix again: zgcm mix MIX",
        )  # fmt: skip
    return indexed.document(row)
