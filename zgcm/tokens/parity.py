"""Is gigatoken right? Its ids of a sample are compared with those of Hugging Face's `tokenizers`.

The sample is chosen by row alone: the first 32 documents of a shard and then one in 500, at most 256
documents and 2 million characters (`tokenizers` needs about a second for those). Probes of known trouble
come first.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zgcm.errors import ZgcmError
from zgcm.tokens.chat import Piece
from zgcm.tokens.encode import Encoder, encode, without_added_tokens

if TYPE_CHECKING:
    import tokenizers

FIRST_DOCUMENTS, ONE_IN, MAX_DOCUMENTS, MAX_CHARACTERS = 32, 500, 256, 2_000_000

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
class Parity:
    """Compares as the index is made; `result` goes into the index report."""

    encoder: Encoder
    whole: "tokenizers.Tokenizer"
    plain: "tokenizers.Tokenizer"
    documents: int = 0
    characters: int = 0

    def wants(self, row: int) -> bool:
        """Whether a row belongs to the sample."""
        if self.documents >= MAX_DOCUMENTS or self.characters >= MAX_CHARACTERS:
            return False
        return row < FIRST_DOCUMENTS or row % ONE_IN == 0

    def compare(self, pieces: Sequence[Piece], found: np.ndarray, where: str) -> None:
        """Raises ZgcmError when gigatoken's ids (`found`) of a document differ from the reference's."""
        expected = self.reference(pieces)
        if len(expected) != len(found) or not np.array_equal(expected, found):
            raise _differs(expected, found, where)
        self.documents += 1
        self.characters += sum(len(piece) for piece in pieces if isinstance(piece, str))

    def reference(self, pieces: Sequence[Piece]) -> np.ndarray:
        """Ids by `tokenizers`: of the whole text at once where all its special tokens are the template's own,
        else piece by piece without added tokens."""
        names = {number: text for text, number in self.encoder.added_tokens.items()}
        text = "".join(piece if isinstance(piece, str) else names[piece] for piece in pieces)
        ids = self.whole.encode(text, add_special_tokens=False).ids
        if [number for number in ids if number in names] == [p for p in pieces if isinstance(p, int)]:
            return np.asarray(ids, np.int64)
        parts = [
            self.plain.encode(piece, add_special_tokens=False).ids if isinstance(piece, str) else [piece]
            for piece in pieces
        ]
        return np.asarray([number for part in parts for number in part], np.int64)

    def result(self) -> dict[str, Any]:
        return {"documents": self.documents, "characters": self.characters, "probes": len(PROBES),
                "equal": True, "reference": "tokenizers"}  # fmt: skip


def start_parity(encoder: Encoder) -> Parity:
    """Load the reference and compare the probes. Raises ZgcmError when an id differs."""
    from tokenizers import Tokenizer

    plain = Tokenizer.from_str(json.dumps(without_added_tokens(encoder.directory)))
    whole = Tokenizer.from_file(str(encoder.directory / "tokenizer.json"))
    parity = Parity(encoder, whole, plain)
    for number, probe in enumerate(PROBES):
        parity.compare([probe], encode(encoder, [[probe]]).tokens, f"probe {number}")
    parity.documents = parity.characters = 0
    return parity


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
