"""A cleaned shard becomes tokens, once: `.bin`/`.idx`, facts per document, and a report. `zgcm index`

Document i of the index is record i of the cleaned shard, ended by the end-of-document token. Conversations
are rendered by the chat template; which of their tokens are learned stands in the facts. Memory is bounded
by a few times CHUNK_CHARACTERS of text (some 10 bytes each) plus 4 bytes a document.
"""

import contextlib
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zgcm.errors import ZgcmError
from zgcm.io import write_json
from zgcm.layout import Layout, cleaned_shard
from zgcm.records import Record, read_records
from zgcm.tokens.chat import Document, Piece, conversation_pieces
from zgcm.tokens.complexity import lexical_complexity
from zgcm.tokens.encode import Encoded, Encoder, another_encoder, encode, encode_ended, load_encoder
from zgcm.tokens.indexed import IndexedWriter, token_dtype, write_indexed
from zgcm.tokens.parity import Checking
from zgcm.tokens.text import record_messages, record_text

if TYPE_CHECKING:
    from zgcm.config.recipe import Recipe

CHUNK_CHARACTERS = 4_000_000
"""Text encoded at a time: some 10 ms of work."""
ENCODERS = 2
"""Threads that encode. They keep up with the one that reads: 2.3 s for 1 GB of text against 1.5 s."""
UNORDERED_CATEGORIES = ("code", "math")
"""Lexical complexity says nothing about their difficulty."""


@dataclass
class _Chunk:
    """Documents waiting to be encoded."""

    first_row: int = 0
    documents: list[Document | str] = field(default_factory=list)
    complexities: list[float] = field(default_factory=list)
    characters: int = 0


def index_shard(recipe: "Recipe", layout: Layout, source: str, shard: str) -> dict[str, Any]:
    """Tokenize a cleaned shard and return the report that lies beside the index.

    Raises ZgcmError for a missing tokenizer, an unreadable record, a conversation that the template refuses,
    or ids that differ from those of `tokenizers`; nothing is then left under a final name.
    """
    from zgcm import identity

    cleaned = cleaned_shard(layout, source, shard)
    measured = recipe.sources[source].category not in UNORDERED_CATEGORIES
    encoder = load_encoder(layout.tokenizer)
    output = IndexFiles(
        layout.index_prefix(source, shard),
        layout.index_facts(source, shard),
        layout.index_report(source, shard),
    )
    recipe_id = identity.recipe_id(recipe, "index", source)
    return write_index(
        read_records(cleaned), cleaned, encoder, output, measured=measured, recipe_id=recipe_id
    )


@dataclass(frozen=True)
class IndexFiles:
    """Where an index goes: `prefix`.bin and .idx, the facts of its documents if anybody wants them, and the
    report, written last."""

    prefix: Path
    facts: Path | None
    report: Path


def write_index(
    records: Iterable[Record | str],
    origin: Path,
    encoder: Encoder,
    output: IndexFiles,
    *,
    measured: bool,
    watch: Callable[[int, int], None] = lambda documents, tokens: None,
    **facts_of_input: Any,
) -> dict[str, Any]:
    """Tokenize records of `origin`, or plain texts, and return the report, which states `facts_of_input` too.

    `measured` says whether lexical complexity is. `watch` hears how many documents and tokens were written.
    The next chunks are read, and the sample compared, while gigatoken encodes in threads of its own.
    """
    output.report.unlink(missing_ok=True)
    documents = tokens = learned_tokens = without_loss = 0
    with (
        ThreadPoolExecutor(1) as pool,
        write_indexed(output.prefix, token_dtype(encoder.vocab_size)) as (writer, written),
        _facts_writer(output.facts) as write_facts,
    ):
        parity = Checking(encoder, pool)
        for chunk, encoded in _encoded(_chunks(records, origin, encoder, measured), encoder, origin):
            _write_chunk(chunk, encoded, origin, encoder, parity, writer)
            learned, without = _learned_spans(chunk.documents, encoded.piece_lengths)
            write_facts(chunk.complexities, learned)
            learned_tokens += sum(sum(marks[1::2]) - sum(marks[::2]) for marks in learned if marks)
            without_loss += without
            documents += len(chunk.documents)
            tokens += len(encoded.tokens)
            watch(documents, tokens)
        compared = parity.finish()
    report = {
        **facts_of_input,
        **asdict(written),
        "tokenizer": encoder.digest,
        "vocab_size": encoder.vocab_size,
        "learned_tokens": learned_tokens,
        "conversations_without_loss": without_loss,
        "parity": compared,
    }
    write_json(output.report, report)
    return report


@contextlib.contextmanager
def _facts_writer(path: Path | None) -> Iterator[Callable[[list[float], list[list[int]]], None]]:
    """Without a path nothing is written, and pyarrow, 0.06 s of each start, not imported."""
    if path is None:
        yield lambda complexities, learned: None
        return
    from zgcm.tokens.facts import write_facts

    with write_facts(path) as write:
        yield write


def _encoded(chunks: Iterable[_Chunk], encoder: Encoder, origin: Path) -> Iterator[tuple[_Chunk, Encoded]]:
    """The chunks in their order, each encoded in a thread while the next ones are read."""
    spare = [encoder]
    waiting: deque[tuple[_Chunk, Future[Encoded]]] = deque()

    def encode_chunk(chunk: _Chunk) -> Encoded:
        try:
            mine = spare.pop()
        except IndexError:
            mine = another_encoder(encoder)
        try:
            return _encode(chunk, mine, origin)
        finally:
            spare.append(mine)

    with ThreadPoolExecutor(ENCODERS) as pool:
        for chunk in chunks:
            waiting.append((chunk, pool.submit(encode_chunk, chunk)))
            if len(waiting) > ENCODERS:
                first, encoded = waiting.popleft()
                yield first, encoded.result()
        for first, encoded in waiting:
            yield first, encoded.result()


def _chunks(
    records: Iterable[Record | str], origin: Path, encoder: Encoder, measured: bool
) -> Iterator[_Chunk]:
    chunk = _Chunk()
    for row, record in enumerate(records):
        document = record if isinstance(record, str) else _document(record, encoder, origin, row)
        chunk.documents.append(document)
        if isinstance(document, str):
            chunk.complexities.append(lexical_complexity(document) if measured else math.nan)
            chunk.characters += len(document)
        else:
            chunk.complexities.append(math.nan)
            chunk.characters += sum([len(piece) for piece in document.pieces if isinstance(piece, str)])
        if chunk.characters >= CHUNK_CHARACTERS:
            yield chunk
            chunk = _Chunk(first_row=row + 1)
    if chunk.documents:
        yield chunk


def _document(record: Record, encoder: Encoder, origin: Path, row: int) -> Document | str:
    """A plain text, or a conversation as pieces that end with the end-of-document token, once."""
    messages = record_messages(record)
    if messages is None:
        return record_text(record)
    try:
        conversation = conversation_pieces(
            messages, encoder.directory, encoder.added_tokens, tools=record["data"].get("tools")
        )
    except ZgcmError as error:
        raise ZgcmError(error.what, where=f"{origin}: record {row}", found=error.found,
                        expected=error.expected, hint=error.hint) from error  # fmt: skip
    if conversation.pieces[-1:] != [encoder.end_id]:
        conversation.pieces.append(encoder.end_id)
    return conversation


def _write_chunk(
    chunk: _Chunk,
    encoded: Encoded,
    origin: Path,
    encoder: Encoder,
    parity: Checking,
    writer: IndexedWriter,
) -> None:
    """Write a chunk, and hand its part of the sample to be compared."""
    starts = np.cumsum(encoded.lengths) - encoded.lengths
    rows = range(chunk.first_row, chunk.first_row + len(chunk.documents))
    for row in parity.sample.of(rows):
        if parity.sample.full:
            break
        offset = row - chunk.first_row
        found = encoded.tokens[starts[offset] :][: encoded.lengths[offset]]
        parity.take(_pieces(chunk.documents[offset], encoder), found, f"{origin}: record {row}")
    writer.append(encoded.tokens, encoded.lengths)


def _encode(chunk: _Chunk, encoder: Encoder, origin: Path) -> Encoded:
    try:
        texts = [document for document in chunk.documents if isinstance(document, str)]
        if len(texts) == len(chunk.documents):
            return encode_ended(encoder, texts)
        return encode(encoder, [_pieces(document, encoder) for document in chunk.documents])
    except UnicodeEncodeError as error:
        pieces = (_pieces(document, encoder) for document in chunk.documents)
        offset = next(row for row, parts in enumerate(pieces) if _is_broken("".join(map(str, parts))))
        raise ZgcmError(
            "A text is not valid Unicode", where=f"{origin}: record {chunk.first_row + offset}",
            found=f"a lone surrogate: {error.reason}", hint="clean the shard again",
        ) from error  # fmt: skip


def _pieces(document: Document | str, encoder: Encoder) -> list[Piece]:
    return [document, encoder.end_id] if isinstance(document, str) else document.pieces


def _is_broken(text: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in text)


def _learned_spans(documents: list[Document | str], piece_lengths: np.ndarray) -> tuple[list[list[int]], int]:
    """Per document the learned ranges as [start, end, start, end, ...] in tokens, and how many conversations
    have none."""
    if all(isinstance(document, str) for document in documents):
        return [[] for _ in documents], 0
    ends = np.concatenate([[0], np.cumsum(piece_lengths)])
    spans: list[list[int]] = []
    without = first = 0
    for document in documents:
        if isinstance(document, str):
            spans.append([])
            first += 2
            continue
        learned = document.learned or []
        spans.append([int(ends[first + mark] - ends[first]) for span in learned for mark in span])
        without += document.learned == []
        first += len(document.pieces)
    return spans, without
