"""Look into any Megatron .bin/.idx, ours or foreign: what it holds and whether it is whole. `zgcm inspect`

Reads what `megatron.core.datasets.indexed_dataset` writes: one or several sequences a document, and the modes
that multimodal indexes append (one int8 a sequence). Streams the tokens; memory holds the .idx.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zgcm.errors import ZgcmError
from zgcm.tokens.indexed import DTYPE_CODES, MAGIC, VERSION, data_path, index_path, without_ending
from zgcm.tokens.pack import IGNORE_INDEX
from zgcm.tokens.tokenizer import any_facts, read_tokenizer

HEADER = struct.Struct("<9sQBQQ")
BLOCK_TOKENS = 1 << 22
SHOWN_TOKENS, SHOWN_CHARACTERS = 200, 400
Report = dict[str, Any]
Problems = list[str]


@dataclass(frozen=True)
class Parts:
    """The arrays of an .idx."""

    dtype: np.dtype
    lengths: np.ndarray
    offsets: np.ndarray
    """In bytes."""
    documents: np.ndarray
    """First sequence of each document, and the end."""
    modes: bool


def inspect_index(
    prefix: Path, tokenizer: Path | None = None, *, show: int = 3, quick: bool = False
) -> Report:
    """Counts, the first `show` documents, and `problems`: what is inconsistent, in sentences.

    With a tokenizer directory, documents are decoded and ids are compared with its vocabulary. `quick` leaves
    the tokens unread. Raises ZgcmError when there is no such index.
    """
    prefix = without_ending(prefix)
    path = index_path(prefix)
    if not path.is_file():
        raise ZgcmError("There is no such index", where=str(path), hint="name it without .bin and .idx")
    report: Report = {"prefix": str(prefix), "idx_bytes": path.stat().st_size, "problems": []}
    problems: Problems = report["problems"]
    parts = read_parts(path, problems)
    if parts is None:
        return report
    report |= counts(parts)
    bin_bytes = data_path(prefix).stat().st_size if data_path(prefix).is_file() else None
    report["bin_bytes"] = bin_bytes
    problems += layout_problems(parts, bin_bytes)
    if problems or not bin_bytes:
        return report
    tokens = np.memmap(data_path(prefix), parts.dtype, "r")
    facts = None if tokenizer is None else any_facts(tokenizer)
    if not quick and parts.dtype.kind in "iu":
        report |= scan(tokens)
    if facts is not None:
        report |= _compare(report, parts, tokens, facts, problems)
    report["first"] = list(first_documents(parts, tokens, tokenizer, show))
    return report


def read_parts(path: Path, problems: Problems) -> Parts | None:
    """The arrays of an .idx, or None and a problem when its header or size is wrong."""
    raw = np.fromfile(path, np.uint8)
    if len(raw) < HEADER.size:
        problems.append(f"the .idx has {len(raw)} bytes, less than its header of {HEADER.size}")
        return None
    magic, version, code, sequences, documents = HEADER.unpack_from(raw)
    names = {number: name for name, number in DTYPE_CODES.items()}
    if magic != MAGIC or version != VERSION or code not in names:
        problems.append(f"the .idx begins with magic {magic!r}, version {version}, dtype code {code}")
        return None
    size = HEADER.size + 12 * sequences + 8 * documents
    if len(raw) not in (size, size + sequences):
        problems.append(f"the .idx has {len(raw):,} bytes; its header says {size:,}")
        return None
    starts = np.cumsum([HEADER.size, 4 * sequences, 8 * sequences])
    return Parts(
        np.dtype(names[code]),
        np.frombuffer(raw, "<i4", sequences, starts[0]),
        np.frombuffer(raw, "<i8", sequences, starts[1]),
        np.frombuffer(raw, "<i8", documents, starts[2]),
        modes=sequences > 0 and len(raw) > size,
    )


def counts(parts: Parts) -> Report:
    lengths = parts.lengths
    spread = {
        name: float(function(lengths)) for name, function in _SPREAD.items()
    } if len(lengths) else {}  # fmt: skip
    return {
        "dtype": parts.dtype.name,
        "sequences": len(lengths),
        "documents": max(len(parts.documents) - 1, 0),
        "tokens": int(lengths.sum(dtype=np.int64)),
        "empty_sequences": int((lengths == 0).sum()),
        "sequence_lengths": spread,
        "modes": parts.modes,
    }


_SPREAD: dict[str, Callable[[np.ndarray], Any]] = {
    "min": np.min, "median": np.median, "mean": np.mean, "max": np.max
}  # fmt: skip


def layout_problems(parts: Parts, bin_bytes: int | None) -> Iterator[str]:
    """Whether lengths, offsets, documents and the .bin's size agree."""
    sizes = parts.lengths.astype(np.int64) * parts.dtype.itemsize
    if (sizes < 0).any():
        yield f"sequence {int(np.argmax(sizes < 0))} has a negative length"
        return
    expected = np.cumsum(sizes) - sizes
    if (wrong := parts.offsets != expected).any():
        at = int(np.argmax(wrong))
        yield f"sequence {at} lies at byte {parts.offsets[at]:,}, its neighbours end at {expected[at]:,}"
    documents = parts.documents
    if (
        not len(documents)
        or documents[0] != 0
        or documents[-1] != len(sizes)
        or (np.diff(documents) < 0).any()
    ):
        yield f"the documents do not run from sequence 0 to {len(sizes):,} in order"
    if bin_bytes is None:
        yield "there is no .bin"
    elif bin_bytes != sizes.sum():
        yield f"the .bin has {bin_bytes:,} bytes, the .idx describes {int(sizes.sum()):,}"


def scan(tokens: np.ndarray) -> Report:
    """The smallest and the largest id."""
    blocks = [tokens[start : start + BLOCK_TOKENS] for start in range(0, len(tokens), BLOCK_TOKENS)]
    return {
        "smallest_id": min((int(block.min()) for block in blocks), default=None),
        "largest_id": max((int(block.max()) for block in blocks), default=None),
    }


def _compare(
    report: Report, parts: Parts, tokens: np.ndarray, facts: dict[str, Any], problems: Problems
) -> Report:
    largest = report.get("largest_id")
    if largest is not None and largest >= facts["vocab_size"]:
        problems.append(f"id {largest} is beyond the tokenizer's {facts['vocab_size']:,}")
    smallest = report.get("smallest_id")
    if (
        smallest is not None and smallest < 0 and smallest != IGNORE_INDEX
    ):  # targets of packed sequences hold it
        problems.append(f"its smallest id is {smallest}")
    if parts.dtype.kind not in "iu":
        problems.append(f"its data type is {parts.dtype.name}, not one of token ids")
    ends = parts.documents[1:][np.diff(parts.documents) > 0] - 1
    last = (parts.offsets[ends] // parts.dtype.itemsize + parts.lengths[ends] - 1)[parts.lengths[ends] > 0]
    share = float((tokens[last] == facts["end_id"]).mean()) if len(last) else 1.0
    return {"vocab_size": facts["vocab_size"], "documents_with_end_token": share}


def first_documents(parts: Parts, tokens: np.ndarray, tokenizer: Path | None, show: int) -> Iterator[Report]:
    """The first documents: their length, first ids and, with a tokenizer, text."""
    decode = _decoder(tokenizer) if tokens.dtype.kind in "iu" else None
    for row in range(min(show, len(parts.documents) - 1)):
        first, end = parts.documents[row : row + 2]
        start = int(parts.offsets[first]) // parts.dtype.itemsize if end > first else 0
        length = int(parts.lengths[first:end].sum(dtype=np.int64))
        ids = tokens[start : start + min(length, SHOWN_TOKENS)].tolist()
        text = {} if decode is None else {"text": decode(ids)[:SHOWN_CHARACTERS]}
        yield {"document": row, "tokens": length, "ids": ids[:16], **text}


def _decoder(directory: Path | None) -> Callable[[list[int]], str] | None:
    if directory is None:
        return None
    tokenizer = read_tokenizer(directory)
    known = tokenizer.get_vocab_size(with_added_tokens=True)

    def decode(ids: list[int]) -> str:
        """Ids that the tokenizer does not have (targets of -100) are left out."""
        return tokenizer.decode([number for number in ids if 0 <= number < known], skip_special_tokens=False)

    return decode


def summary_lines(report: Report) -> Iterator[str]:
    """What a person reads."""
    if "dtype" in report:
        yield (
            f"{report['prefix']}: {report['documents']:,} documents, {report['sequences']:,} sequences, "
            f"{report['tokens']:,} tokens ({report['dtype']})"
        )
    if report.get("sequence_lengths"):
        spread = ", ".join(f"{name} {value:,.0f}" for name, value in report["sequence_lengths"].items())
        yield f"  tokens a sequence: {spread}; {report['empty_sequences']:,} empty"
    if report.get("largest_id") is not None:
        yield f"  ids from {report['smallest_id']:,} to {report['largest_id']:,}"
    if "documents_with_end_token" in report:
        yield f"  {report['documents_with_end_token']:.1%} of the documents end with the end token"
    for item in report.get("first", []):
        yield f"  document {item['document']}, {item['tokens']:,} tokens: {item.get('text', item['ids'])!r}"
    for problem in report["problems"]:
        yield f"  PROBLEM: {problem}"
    if not report["problems"]:
        yield "  consistent"
