"""Is gigatoken right? Its ids of a sample are compared with those of Hugging Face's `tokenizers`.

The sample is chosen by row and length: the first 32 documents of a shard and then one in 500, at most 256
documents and 1 million characters (`tokenizers` needs about half a second for those; on one document of 100
MB it would spend minutes). Probes of known trouble come first.
"""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from zgcm.errors import ZgcmError
from zgcm.tokens.chat import Piece
from zgcm.tokens.encode import Encoder, encode, without_added_tokens
from zgcm.tokens.tokenizer import read_tokenizer

if TYPE_CHECKING:
    import tokenizers

FIRST_DOCUMENTS, ONE_IN, MAX_DOCUMENTS, MAX_CHARACTERS = 32, 500, 256, 1_000_000

PROBES = (
    "",
    " ",
    "\n\n  \t\r\n x\n",
    "It's 1234567 + 0.5 = １２ ²³ Ⅷ",
    "naïve Straße Ωμέγα हिन्दी ไทย 日本語 한국어 العربية e\u0301 ﬁ",
    "\U0001f469\u200d\U0001f4bb \ufeff\u00a0\u2028\x00\x7f\ufdd0\ufffd",
    "<|endoftext|> <|user|>hi<|assistant|><think></think>",
    'for(i=0;i<n;++i){a[i]->b__c("d\\n");}\t\t// ====----',
    "a" * 300 + " " * 300 + "=" * 300,
)


@dataclass
class Sample:
    """Which documents are compared; `result` goes into the index report."""

    documents: int = 0
    characters: int = 0

    def of(self, rows: range) -> list[int]:
        """Which of some consecutive rows belong to the sample, as long as it is not `full`."""
        first = rows[: max(FIRST_DOCUMENTS - rows.start, 0)]
        return sorted({*first, *rows[-rows.start % ONE_IN :: ONE_IN]})

    @property
    def full(self) -> bool:
        return self.documents >= MAX_DOCUMENTS or self.characters >= MAX_CHARACTERS

    def count(self, pieces: Sequence[Piece]) -> bool:
        """Whether there is room for a document; it is counted then."""
        characters = sum(len(piece) for piece in pieces if isinstance(piece, str))
        if self.characters + characters > MAX_CHARACTERS:
            return False
        self.documents += 1
        self.characters += characters
        return True

    def result(self) -> dict[str, Any]:
        return {"documents": self.documents, "characters": self.characters, "probes": len(PROBES),
                "equal": True, "reference": "tokenizers"}  # fmt: skip


@dataclass(frozen=True)
class Parity:
    """Compares ids with those of the reference."""

    encoder: Encoder
    whole: "tokenizers.Tokenizer"

    def compare(self, pieces: Sequence[Piece], found: np.ndarray, where: str) -> None:
        """Raises ZgcmError when gigatoken's ids (`found`) of a document differ from the reference's."""
        expected = self.reference(pieces)
        if len(expected) != len(found) or not np.array_equal(expected, found):
            raise _differs(expected, found, where)

    def reference(self, pieces: Sequence[Piece]) -> np.ndarray:
        """Ids by `tokenizers`: of the whole text at once where all its special tokens are the template's own,
        else piece by piece without added tokens."""
        names = {number: text for text, number in self.encoder.added_tokens.items()}
        text = "".join(piece if isinstance(piece, str) else names[piece] for piece in pieces)
        ids = _ids(self.whole, text)
        if [number for number in ids if number in names] == [p for p in pieces if isinstance(p, int)]:
            return np.asarray(ids, np.int64)
        parts = [_ids(self._plain, piece) if isinstance(piece, str) else [piece] for piece in pieces]
        return np.asarray([number for part in parts for number in part], np.int64)

    @cached_property
    def _plain(self) -> "tokenizers.Tokenizer":
        """Without added tokens; most indexes never need it."""
        from tokenizers import Tokenizer

        return Tokenizer.from_buffer(without_added_tokens(self.encoder.directory))


class Checking:
    """Parity of a sample, compared in a thread of its own while the index is made."""

    def __init__(self, encoder: Encoder, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._parity = pool.submit(start_parity, encoder, encode_probes(encoder))
        self._waiting: list[Future[None]] = []
        self.sample = Sample()

    def take(self, pieces: Sequence[Piece], found: np.ndarray, where: str) -> None:
        """Compare a document of the sample soon, unless it is too long. Raises ZgcmError when an earlier one
        differed."""
        if not self.sample.count(pieces):
            return
        for done in [future for future in self._waiting if future.done()]:
            self._waiting.remove(done)
            done.result()
        self._waiting.append(self._pool.submit(self._compare, pieces, found.copy(), where))

    def _compare(self, pieces: Sequence[Piece], found: np.ndarray, where: str) -> None:
        self._parity.result().compare(pieces, found, where)

    def finish(self) -> dict[str, Any]:
        """Wait for all comparisons. Raises ZgcmError when an id of the probes or the sample differs."""
        self._parity.result()
        for future in self._waiting:
            future.result()
        return self.sample.result()


def encode_probes(encoder: Encoder) -> list[np.ndarray]:
    return [encode(encoder, [[probe]]).tokens for probe in PROBES]


def start_parity(encoder: Encoder, probes: list[np.ndarray]) -> Parity:
    """Load the reference and compare gigatoken's ids of the probes. Raises ZgcmError when one differs."""
    parity = Parity(encoder, read_tokenizer(encoder.directory))
    for number, found in enumerate(probes):
        parity.compare([PROBES[number]], found, f"probe {number}")
    return parity


def _ids(tokenizer: "tokenizers.Tokenizer", text: str) -> list[int]:
    """By the batch method: unlike `encode`, it lets other threads run meanwhile, and it counts no offsets."""
    return tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids


def _differs(expected: np.ndarray, found: np.ndarray, where: str) -> ZgcmError:
    shared = min(len(expected), len(found))
    unequal = np.flatnonzero(expected[:shared] != found[:shared])
    at = int(unequal[0]) if len(unequal) else shared
    return ZgcmError(
        "gigatoken and tokenizers disagree; nothing was written", where=where,
        found=f"{len(found)} tokens, from token {at} on {found[at : at + 8].tolist()}",
        expected=f"{len(expected)} tokens, from token {at} on {expected[at : at + 8].tolist()}",
        hint="report the text to gigatoken; another tokenizer or version may agree",
    )  # fmt: skip
