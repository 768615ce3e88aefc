"""Documents of a cleaned shard that share a run of words with an evaluation file. `zgcm contamination`

    {shard}.{evaluations}.contamination      parquet, one row for each contaminated document, by row:
        row          in the cleaned shard
        evaluation   name of the file whose run comes first in the document
        item         its line (parquet: row), from 1
        ngram        the run itself
        matches      how many of the document's runs occur in any evaluation file

Looked at is all that a document trains on: of a conversation every turn, of one decision of a trace its state
too. Runs are found by 64-bit hashes and then compared word by word. Streams: memory holds the index of the
evaluation files and one document.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zgcm.config.recipe import Recipe
from zgcm.corpus.clean import find_cleaned
from zgcm.corpus.evaluations import EvaluationIndex, read_evaluations
from zgcm.corpus.messages import trained_text
from zgcm.corpus.shingles import gram_hashes, word_hashes, words
from zgcm.errors import ZgcmError
from zgcm.identity import evaluation_set
from zgcm.io import atomic_open
from zgcm.layout import Layout
from zgcm.records import read_records

SCHEMA = pa.schema(
    [
        pa.field("row", pa.int32(), nullable=False),
        pa.field("evaluation", pa.string(), nullable=False),
        pa.field("item", pa.int32(), nullable=False),
        pa.field("ngram", pa.string(), nullable=False),
        pa.field("matches", pa.int32(), nullable=False),
    ]
)
ROWS_A_GROUP = 1 << 16
DIFFERENT_WORDS = 3
"""A run of fewer different words (`0 0 0 0 0 ...` stands in HumanEval, and in any listing) proves nothing."""


def contaminate_shard(recipe: Recipe, layout: Layout, mix: str, source: str, shard: str) -> dict[str, int]:
    """Write the contamination of a shard by the evaluation files of a mix; returns `write_contamination`'s
    counts. Raises ZgcmError for names the recipe does not have, and for a mix without `decontaminate`."""
    section = recipe.mixes[mix].decontaminate if mix in recipe.mixes else None
    if section is None:
        able = [name for name, found in recipe.mixes.items() if found.decontaminate is not None]
        raise ZgcmError(
            "No such mix with evaluation files", where=f"mixes.{mix}.decontaminate", found=mix,
            expected=", ".join(able) or "a mix with `decontaminate`; the recipe has none",
        )  # fmt: skip
    cleaned = find_cleaned(recipe, layout, source, shard)
    target = layout.contamination(source, shard, evaluation_set(section))
    return write_contamination(cleaned, target, read_evaluations(section))


def write_contamination(cleaned: Path, target: Path, index: EvaluationIndex) -> dict[str, int]:
    """List the contaminated documents of a cleaned shard.

    Returns how many by evaluation file, `documents` (all), and `skipped`: evaluation texts too short to be
    sought.
    """
    counts = {"documents": 0, "skipped": index.skipped}
    rows: list[dict[str, Any]] = []
    with atomic_open(target) as stream, pq.ParquetWriter(stream, SCHEMA, compression="zstd") as out:
        for row, record in enumerate(read_records(cleaned)):
            counts["documents"] += 1
            found = contamination(trained_text(record["data"], record["text_fields"]), index)
            if found is None:
                continue
            counts[found["evaluation"]] = counts.get(found["evaluation"], 0) + 1
            rows.append({"row": row, **found})
            if len(rows) == ROWS_A_GROUP:
                out.write_table(pa.Table.from_pylist(rows, SCHEMA))
                rows = []
        if rows:
            out.write_table(pa.Table.from_pylist(rows, SCHEMA))
    return counts


def contamination(text: str, index: EvaluationIndex) -> dict[str, Any] | None:
    """The first run of a text that an evaluation file holds, and how many there are; None when there is
    none."""
    tokens = words(text)
    matches = list(_verified(tokens, index))
    if not matches:
        return None
    _, ngram, owner = min(matches)
    passage = index.passages[owner]
    return {
        "evaluation": passage.file,
        "item": passage.item,
        "ngram": ngram.decode(),
        "matches": len(matches),
    }


def _verified(tokens: list[bytes], index: EvaluationIndex) -> Iterator[tuple[int, bytes, int]]:
    """(start, run, passage) of every run that occurs in a passage, word by word."""
    for width, start, owner in _candidates(word_hashes(tokens), index):
        found = tokens[start : start + width]
        if len(set(found)) < min(width, DIFFERENT_WORDS):
            continue
        run = b" ".join(found)
        if index.passages[owner].holds(run):
            yield start, run, owner


def _candidates(hashes: np.ndarray, index: EvaluationIndex) -> Iterator[tuple[int, int, int]]:
    """(length, start, passage) of every run whose hash occurs in a passage."""
    known = index.sought if len(hashes) >= index.ngram else {index.shortest: index.short}
    for width, runs in known.items():
        for start, owner in zip(*runs.matches(gram_hashes(hashes, width)), strict=True):
            yield width, int(start), int(owner)


def summary_line(counts: dict[str, int]) -> str:
    """What a person reads when the verb ends."""
    files = {name: count for name, count in counts.items() if name not in ("documents", "skipped")}
    by_file = ", ".join(f"{name} {count:,}" for name, count in files.items())
    line = f"{sum(files.values()):,} of {counts['documents']:,} documents contaminated"
    short = (
        f"; {counts['skipped']:,} evaluation texts are too short to be sought" if counts["skipped"] else ""
    )
    return line + (f" ({by_file})" if by_file else "") + short
