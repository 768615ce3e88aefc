"""Evaluation files as an index of word runs: what training text must not contain.

An item is a JSON object (its strings, or the named fields), or a line of a plain text file. Each string of it
is a passage of its own. Words are those of zgcm.corpus.shingles; with `ngram` n and `shortest` m:

    passage of n words and more       every run of n words in it is sought in the documents
    passage of m to n - 1 words       the whole passage is sought
    passage of fewer than m words     not sought: common phrases would remove innocent documents
    document of m to n - 1 words      every run of m words in it is sought in the passages
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zgcm.config.corpus import Decontamination
from zgcm.corpus.shingles import gram_hashes, word_hashes, words
from zgcm.errors import ZgcmError
from zgcm.records import FORMATS, Record, read_numbered
from zgcm.records.find import require_regular
from zgcm.records.lines import read_lines

FILTER_SLOTS = 8
"""Slots (bytes) of the filter for each run, at least: one look-up in eight passes it by chance and is then
searched for."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Passage:
    """A string of an evaluation item, normalised."""

    file: str
    """The file's name without its directory."""
    item: int
    """Line of the file, or row of a parquet file, from 1."""
    text: bytes
    """Its words, separated by blanks."""

    def holds(self, run: bytes) -> bool:
        """Whether the run of words (separated by blanks) occurs in it."""
        return b" " + run + b" " in b" " + self.text + b" "


class Runs:
    """Word runs of one length by hash, with the passages that hold them."""

    def __init__(self, hashes: list[np.ndarray], passages: list[int]) -> None:
        """`hashes[i]`: uint64 runs of passage number `passages[i]`; earlier passages win."""
        found = np.concatenate([np.empty(0, np.uint64), *hashes])
        owners = np.repeat(np.array(passages, np.int32), [len(part) for part in hashes])
        self.hashes, first = np.unique(found, return_index=True)
        self.owners = owners[first]
        bits = max(10, int(FILTER_SLOTS * len(self.hashes)).bit_length())
        self.shift = np.uint64(64 - bits)
        self.filter = np.zeros(1 << bits, bool)
        self.filter[self._slots(self.hashes)] = True

    def _slots(self, hashes: np.ndarray) -> np.ndarray:
        return (hashes * _FACTOR) >> self.shift

    def matches(self, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Positions in `hashes` that occur here, and the number of a passage that holds each."""
        likely = np.flatnonzero(self.filter[self._slots(hashes)])
        if not len(likely) or not len(self.hashes):
            return likely[:0], likely[:0]
        places = np.minimum(np.searchsorted(self.hashes, hashes[likely]), len(self.hashes) - 1)
        same = self.hashes[places] == hashes[likely]
        return likely[same], self.owners[places[same]]


@dataclass(frozen=True)
class EvaluationIndex:
    """Some 50 bytes for each word of the evaluation files."""

    ngram: int
    shortest: int
    passages: list[Passage]
    sought: dict[int, Runs]
    """Length of a run -> runs that are sought in documents of `ngram` words and more."""
    short: Runs
    """Runs of `shortest` words in any passage, sought in shorter documents."""
    skipped: int
    """Passages of fewer than `shortest` words."""


def read_evaluations(section: Decontamination) -> EvaluationIndex:
    """Index the evaluation files. Raises ZgcmError for a missing or unreadable file, one without a passage,
    and an item that has none of the named fields."""
    width, shortest = section.ngram, min(section.shortest, section.ngram)
    passages: list[Passage] = []
    lengths: list[int] = []
    skipped = 0
    for name in section.against:
        before = len(passages) + skipped
        for item, text in _texts_of(Path(name), section.fields):
            found = words(text)
            if len(found) < shortest:
                skipped += 1
                continue
            passages.append(Passage(Path(name).name, item, b" ".join(found)))
            lengths.append(len(found))
        if len(passages) + skipped == before:
            raise ZgcmError("An evaluation file holds no text", where=name, hint="leave it out")
    by_length: dict[int, list[int]] = {}
    for number, length in enumerate(lengths):
        by_length.setdefault(min(length, width), []).append(number)
    return EvaluationIndex(
        ngram=width,
        shortest=shortest,
        passages=passages,
        sought={length: _runs(passages, mine, length) for length, mine in sorted(by_length.items())},
        short=_runs(passages, list(range(len(passages))), shortest),
        skipped=skipped,
    )


def _runs(passages: list[Passage], chosen: list[int], length: int) -> Runs:
    return Runs([gram_hashes(word_hashes(passages[i].text.split()), length) for i in chosen], chosen)


def _texts_of(path: Path, fields: list[str]) -> Iterator[tuple[int, str]]:
    """(item, string) of a file."""
    if not path.exists():
        raise ZgcmError("An evaluation file is missing", where=str(path), hint="correct the path")
    require_regular(path)
    for number, item in _items(path):
        if fields and not any(field in item for field in fields):
            raise ZgcmError(
                "An evaluation item has none of the named fields", where=f"{path}:{number}",
                found=f"the fields {', '.join(map(str, item))}", expected=f"one of {', '.join(fields)}",
                hint="correct decontaminate.fields, or leave it out to look for every string",
            )  # fmt: skip
        chosen = [item[field] for field in fields if field in item] if fields else list(item.values())
        for text in _strings(chosen):
            yield number, text


def _items(path: Path) -> Iterator[tuple[int, Record]]:
    if path.name.endswith(FORMATS):
        yield from read_numbered(path)
        return
    for line in read_lines(path):
        if line.data.strip():
            yield line.number, {"text": line.data.decode("utf-8", "replace")}


def _strings(value: Any) -> Iterator[str]:
    """Every string in a JSON value, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)
