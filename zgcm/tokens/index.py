"""A cleaned shard becomes tokens, once: `.bin`/`.idx`, facts per document, and a report. `zgcm index`

Document i of the index is record i of the cleaned shard, ended by the end-of-document token. Conversations
are rendered by the chat template; which of their tokens are learned stands in the facts. Memory is bounded
by CHUNK_CHARACTERS of text (some 10 bytes each) plus 4 bytes a document.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from zgcm.config.recipe import Recipe
from zgcm.errors import ZgcmError
from zgcm.io import write_json
from zgcm.layout import Layout
from zgcm.records import read_records
from zgcm.tokens.chat import Document, conversation_pieces
from zgcm.tokens.complexity import lexical_complexity
from zgcm.tokens.encode import Encoded, Encoder, encode, load_encoder
from zgcm.tokens.facts import FactsWriter, write_facts
from zgcm.tokens.indexed import IndexedWriter, token_dtype, write_indexed
from zgcm.tokens.parity import Parity, start_parity
from zgcm.tokens.text import record_messages, record_text

CHUNK_CHARACTERS = 8_000_000
"""Text encoded at a time; enough to keep 64 threads of gigatoken busy for some 10 ms."""
UNORDERED_CATEGORIES = ("code", "math")
"""Lexical complexity says nothing about their difficulty (fact sheet 2.3)."""


@dataclass
class _Chunk:
    """Documents waiting to be encoded."""

    first_row: int = 0
    documents: list[Document] = field(default_factory=list)
    complexities: list[float] = field(default_factory=list)
    characters: int = 0


def index_shard(recipe: Recipe, layout: Layout, source: str, shard: str) -> dict[str, Any]:
    """Tokenize a cleaned shard and return the report that lies beside the index.

    Raises ZgcmError for a missing tokenizer, an unreadable record, a conversation that the template refuses,
    or ids that differ from those of `tokenizers`; nothing is then left under a final name.
    """
    cleaned = layout.cleaned(source, shard)
    encoder = load_encoder(layout.tokenizer)
    parity = start_parity(encoder)
    layout.index_report(source, shard).unlink(missing_ok=True)
    measured = recipe.sources[source].category not in UNORDERED_CATEGORIES
    with (
        write_indexed(layout.index_prefix(source, shard), token_dtype(encoder.vocab_size)) as (
            writer,
            written,
        ),
        write_facts(layout.index_facts(source, shard)) as facts,
    ):
        for chunk in _chunks(cleaned, encoder, measured):
            _write_chunk(chunk, cleaned, encoder, parity, writer, facts)
    report = {
        **asdict(written),
        "tokenizer": encoder.digest,
        "vocab_size": encoder.vocab_size,
        "learned_tokens": facts.learned_tokens,
        "conversations_without_loss": facts.without_loss,
        "parity": parity.result(),
    }
    write_json(layout.index_report(source, shard), report)
    return report


def _chunks(path: Path, encoder: Encoder, measured: bool) -> Iterator[_Chunk]:
    chunk = _Chunk()
    for row, record in enumerate(read_records(path)):
        document = _document(record, encoder, f"{path}: record {row}")
        chunk.documents.append(document)
        text = record_text(record) if measured and record_messages(record) is None else ""
        chunk.complexities.append(lexical_complexity(text))
        chunk.characters += sum(len(piece) for piece in document.pieces if isinstance(piece, str))
        if chunk.characters >= CHUNK_CHARACTERS:
            yield chunk
            chunk = _Chunk(first_row=row + 1)
    if chunk.documents:
        yield chunk


def _document(record: dict[str, Any], encoder: Encoder, where: str) -> Document:
    """A record as pieces that end with the end-of-document token, once."""
    messages = record_messages(record)
    if messages is None:
        return Document([record_text(record), encoder.end_id])
    try:
        conversation = conversation_pieces(
            messages, encoder.directory, encoder.added_tokens, tools=record["data"].get("tools")
        )
    except ZgcmError as error:
        raise ZgcmError(error.what, where=where, found=error.found, expected=error.expected,
                        hint=error.hint) from error  # fmt: skip
    if conversation.pieces[-1:] != [encoder.end_id]:
        conversation.pieces.append(encoder.end_id)
    return conversation


def _write_chunk(
    chunk: _Chunk,
    cleaned: Path,
    encoder: Encoder,
    parity: Parity,
    writer: IndexedWriter,
    facts: FactsWriter,
) -> None:
    encoded = _encode(chunk, encoder, cleaned)
    starts = np.cumsum(encoded.lengths) - encoded.lengths
    for offset, document in enumerate(chunk.documents):
        row = chunk.first_row + offset
        if parity.wants(row):
            found = encoded.tokens[starts[offset] :][: encoded.lengths[offset]]
            parity.compare(document.pieces, found, f"{cleaned}: record {row}")
    writer.append(encoded.tokens, encoded.lengths)
    facts.append(chunk.complexities, *_learned_spans(chunk.documents, encoded.piece_lengths))


def _encode(chunk: _Chunk, encoder: Encoder, cleaned: Path) -> Encoded:
    try:
        return encode(encoder, [document.pieces for document in chunk.documents])
    except UnicodeEncodeError as error:
        offset = next(i for i, d in enumerate(chunk.documents) if _is_broken("".join(map(str, d.pieces))))
        raise ZgcmError(
            "A text is not valid Unicode", where=f"{cleaned}: record {chunk.first_row + offset}",
            found=f"a lone surrogate: {error.reason}", hint="clean the shard again",
        ) from error  # fmt: skip


def _is_broken(text: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in text)


def _learned_spans(documents: list[Document], piece_lengths: np.ndarray) -> tuple[list[list[int]], int]:
    """Per document the learned ranges as [start, end, start, end, ...] in tokens, and how many conversations
    have none."""
    ends = np.concatenate([[0], np.cumsum(piece_lengths)])
    spans, without, first = [], 0, 0
    for document in documents:
        learned = document.learned or []
        spans.append([int(ends[first + mark] - ends[first]) for span in learned for mark in span])
        without += document.learned == []
        first += len(document.pieces)
    return spans, without
