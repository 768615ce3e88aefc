"""Pieces of text to token ids, many documents at a time, with gigatoken.

The encoder knows no added tokens: `<|endoftext|>` written in a document becomes the tokens of its characters,
never the end-of-document token. Special tokens come only from pieces that are ids already.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from zgcm.errors import ZgcmError
from zgcm.tokens.chat import Piece
from zgcm.tokens.indexed import token_dtype
from zgcm.tokens.tokenizer import tokenizer_facts


@dataclass(frozen=True)
class Encoder:
    """gigatoken's backend of a tokenizer directory without its added tokens, and the directory's facts."""

    backend: Any
    directory: Path
    vocab_size: int
    end_id: int
    added_tokens: dict[str, int]
    digest: str


@dataclass(frozen=True)
class Encoded:
    """A batch: the tokens of all documents end to end, the length of each document and of each piece."""

    tokens: np.ndarray
    lengths: np.ndarray
    piece_lengths: np.ndarray


def load_encoder(directory: Path, facts: dict[str, Any] | None = None) -> Encoder:
    """Open a tokenizer directory for encoding. Raises ZgcmError when it is missing or damaged, or of a kind
    that gigatoken does not know.

    `facts` are those of a directory that has no manifest of ours.
    """
    facts = facts or tokenizer_facts(directory)
    names = ("vocab_size", "end_id", "added_tokens", "digest")
    return Encoder(_load_backend(directory), directory, **{name: facts[name] for name in names})


def another_encoder(encoder: Encoder) -> Encoder:
    """The same for a second thread: gigatoken locks a tokenizer while it encodes, so that two threads with
    one take as long as one does."""
    return replace(encoder, backend=_load_backend(encoder.directory))


def _load_backend(directory: Path) -> Any:
    from gigatoken.gigatoken_rs import load_hf_json

    try:
        return load_hf_json(without_added_tokens(directory))
    except (RuntimeError, ValueError) as error:
        raise ZgcmError(
            "gigatoken cannot use this tokenizer", where=str(directory / "tokenizer.json"), found=str(error),
            expected="byte-level BPE, as `zgcm tokenizer` makes", hint="use another tokenizer",
        ) from error  # fmt: skip


def without_added_tokens(directory: Path) -> bytes:
    """tokenizer.json with no added tokens, so that text can never become one."""
    tokenizer = orjson.loads((directory / "tokenizer.json").read_bytes())
    return orjson.dumps({**tokenizer, "added_tokens": [], "post_processor": None})


def encode(encoder: Encoder, documents: Sequence[Sequence[Piece]]) -> Encoded:
    """Encode documents given as pieces: text (str) is tokenized on its own, an int stands for itself.

    Tokens are uint32. Raises UnicodeEncodeError for text that is not valid Unicode.
    """
    pieces = [piece for document in documents for piece in document]
    texts = [piece for piece in pieces if isinstance(piece, str)]
    is_text = np.fromiter((isinstance(piece, str) for piece in pieces), bool, len(pieces))
    text_tokens, text_lengths = _encode_texts(encoder, texts)
    piece_lengths = np.ones(len(pieces), np.int64)
    piece_lengths[is_text] = text_lengths
    ends = np.cumsum(piece_lengths)
    tokens = np.empty(int(ends[-1]) if len(ends) else 0, np.uint32)
    from_text = np.ones(len(tokens), bool)
    from_text[ends[~is_text] - 1] = False
    tokens[from_text] = text_tokens
    tokens[~from_text] = [piece for piece in pieces if not isinstance(piece, str)]
    counts = np.fromiter(map(len, documents), np.int64, len(documents))
    document_ends = np.concatenate([[0], ends])[np.cumsum(counts)]
    return Encoded(tokens, np.diff(document_ends, prepend=0), piece_lengths)


def encode_ended(encoder: Encoder, texts: list[str]) -> Encoded:
    """The same for plain documents, each a text and then the end token: with one mask over all tokens instead
    of four. Tokens have the index's data type, which every id fits."""
    text_tokens, text_lengths = _encode_texts(encoder, texts)
    lengths = text_lengths + 1
    tokens = np.full(len(text_tokens) + len(texts), encoder.end_id, token_dtype(encoder.vocab_size))
    from_text = np.ones(len(tokens), bool)
    from_text[np.cumsum(lengths) - 1] = False
    tokens[from_text] = text_tokens
    piece_lengths = np.ones(2 * len(texts), np.int64)
    piece_lengths[::2] = text_lengths
    return Encoded(tokens, lengths, piece_lengths)


def _encode_texts(encoder: Encoder, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    if not texts:
        return np.empty(0, np.uint32), np.empty(0, np.int64)
    try:
        layout = encoder.backend.encode_batch(texts, parallel=False).layout
    except TypeError:  # gigatoken's word for a text that has no UTF-8
        for text in texts:
            text.encode()
        raise
    offsets = np.asarray(layout.offsets.data)
    return np.asarray(layout.content.data)[offsets[0] : offsets[-1]], np.diff(offsets)
