"""The documents that a mix may use: every row of its sources that dedup left in, with its tokens."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from zgcm.config.recipe import Recipe
from zgcm.errors import ZgcmError
from zgcm.io import read_json
from zgcm.layout import Layout, source_shards
from zgcm.tokens.columns import read_columns, values
from zgcm.tokens.facts import read_complexities
from zgcm.tokens.indexed import read_lengths

BLOCK = 1 << 16
"""Rows that are Python objects at a time."""


@dataclass(frozen=True)
class Rows:
    """Rows of one source, or of a whole mix, column by column; all arrays have the length N.

    40 bytes a row. Planning takes some 160 at its peak: a billion documents need 160 GB.
    """

    source: np.ndarray
    """int16, position of the source in the mix's list."""
    shard: np.ndarray
    """int32, number of the source's shard."""
    row: np.ndarray
    """int32, row within the shard."""
    tokens: np.ndarray
    """int64, with the end-of-document token."""
    exact: np.ndarray
    """uint8 (N, 16), the text's fingerprint: the row's id wherever it lies."""
    complexity: np.ndarray
    """float32, NaN where it has no meaning or was not read."""
    epoch: np.ndarray
    """int16, 0 the first time a row is used."""

    def __len__(self) -> int:
        return len(self.row)

    def take(self, positions: np.ndarray) -> "Rows":
        """Rows at positions (or where a boolean mask is true), in that order."""
        return Rows(**{name: column[positions] for name, column in self.__dict__.items()})

    def ids(self) -> Iterator[str]:
        """The fingerprint as hex; `#epoch` is added for repetitions."""
        for first in range(0, len(self), BLOCK):
            text = self.exact[first : first + BLOCK].tobytes().hex()
            for start, epoch in enumerate(self.epoch[first : first + BLOCK].tolist()):
                name = text[32 * start : 32 * start + 32]
                yield f"{name}#{epoch}" if epoch else name


def concatenate(parts: list[Rows]) -> Rows:
    return Rows(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in vars(parts[0])})


LEFT_OUT = pa.schema(
    [("source", pa.string()), ("shard", pa.string()), ("row", pa.int32()), ("reason", pa.string())]
)


def load_candidates(
    recipe: Recipe, layout: Layout, mix: str, source: str, tokenizer: str
) -> tuple[Rows, dict[str, int], dict[str, str]]:
    """Rows of a source that the mix may use, how many were left out by reason, and each shard's bin digest.

    Raises ZgcmError when an artifact is missing, index and fingerprints have different numbers of rows, or
    the index is not of the tokenizer with the digest `tokenizer`.
    """
    section = recipe.mixes[mix]
    left_out, removed = _left_out(layout.duplicates(mix), source)
    parts, digests = [], {}
    for number, shard in enumerate(source_shards(recipe, source)):
        digests[shard] = _index_digest(layout, source, shard, tokenizer)
        rows = _load_shard(layout, source, shard, section.order == "curriculum")
        rows.shard[:] = number
        rows.source[:] = list(section.sources).index(source)
        left_in = np.ones(len(rows), bool)
        gone = left_out.get(shard, np.empty(0, np.int32))
        if len(gone) and not 0 <= gone.min() <= gone.max() < len(rows):
            raise ZgcmError(
                "Deduplication leaves rows out that do not exist", where=str(layout.duplicates(mix)),
                found=f"{source}/{shard} rows {gone.min()} to {gone.max()}", expected=f"0 to {len(rows) - 1}",
                hint=f"do it again: zgcm dedup {mix}",
            )  # fmt: skip
        left_in[gone] = False
        short = rows.tokens < section.min_document_tokens
        longer = rows.tokens > (section.max_document_tokens or np.iinfo(np.int64).max)
        for reason, mask in (("min_document_tokens", short), ("max_document_tokens", longer)):
            if count := int((mask & left_in).sum()):
                removed[reason] = removed.get(reason, 0) + count
        parts.append(rows.take(left_in & ~short & ~longer))
    return concatenate(parts), removed, digests


def read_fingerprints(path: Path) -> np.ndarray:
    """uint8 (N, 16)."""
    schema = pa.schema([("exact", pa.binary(16))])
    column = read_columns(path, schema, made_by="zgcm fingerprint SOURCE SHARD")["exact"]
    return values(column, np.dtype("V16")).view(np.uint8).reshape(-1, 16)


def _left_out(path: Path, source: str) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Rows of a source that dedup takes out, by shard, and how many by reason."""
    table = read_columns(path, LEFT_OUT, made_by=f"zgcm dedup {path.parent.name}")
    parts: dict[str, list[np.ndarray]] = {}
    counts: Counter[str] = Counter()
    for batch in table.to_batches(max_chunksize=BLOCK):
        mine = np.zeros(len(batch), bool)
        for name, found in _places(batch["source"]):
            mine |= found & (name == source)
        rows = values(batch["row"], np.dtype(np.int32))
        for name, found in _places(batch["shard"]):
            if (found & mine).any():
                parts.setdefault(name, []).append(rows[found & mine])
        counts.update({name: int((found & mine).sum()) for name, found in _places(batch["reason"])})
    return {shard: np.concatenate(found) for shard, found in parts.items()}, dict(sorted((+counts).items()))


def _places(column: pa.Array) -> Iterator[tuple[str, np.ndarray]]:
    """Each different string of a column, and a mask of where it stands. Python's own strings would take more
    memory than the whole table."""
    coded = column.dictionary_encode()
    codes = values(coded.indices, np.dtype(np.int32))
    return ((name, codes == code) for code, name in enumerate(coded.dictionary.to_pylist()))


def _index_digest(layout: Layout, source: str, shard: str, tokenizer: str) -> str:
    path = layout.index_report(source, shard)
    report: dict[str, Any] = read_json(path, made_by=f"zgcm index {source} {shard}")
    if report["tokenizer"] != tokenizer:
        raise ZgcmError(
            "A shard was tokenized with another tokenizer", where=str(path),
            found=f"tokenizer {str(report['tokenizer'])[:12]}", expected=f"tokenizer {tokenizer[:12]}",
            hint=f"index it again: zgcm index {source} {shard}",
        )  # fmt: skip
    return report["bin_sha256"]


def _load_shard(layout: Layout, source: str, shard: str, with_complexity: bool) -> Rows:
    lengths = read_lengths(layout.index_prefix(source, shard))
    exact = read_fingerprints(layout.fingerprints(source, shard))
    count = len(lengths)
    if len(exact) != count:
        raise ZgcmError(
            "The index and the fingerprints of a shard disagree", where=f"{source}/{shard}",
            found=f"{count:,} documents and {len(exact):,} fingerprints", expected="as many of both",
            hint="make both again from the cleaned shard",
        )  # fmt: skip
    complexity = (
        read_complexities(layout.index_facts(source, shard))
        if with_complexity
        else np.full(count, np.nan, np.float32)
    )
    return Rows(
        source=np.zeros(count, np.int16),
        shard=np.zeros(count, np.int32),
        row=np.arange(count, dtype=np.int32),
        tokens=lengths.astype(np.int64),
        exact=exact,
        complexity=complexity,
        epoch=np.zeros(count, np.int16),
    )
