"""The published near-duplicate fingerprint: 64-bit SimHash, two texts alike when few bits differ."""

import hashlib
import re

import numpy as np

from zgcm.corpus.text import comparison_form

_WORD = re.compile(r"\w+")


def simhash(text: str, ngram: int = 5) -> int:
    """64-bit SimHash of a text's word n-grams; 0 for a text without words.

    Each n-gram's hash is BLAKE2b with an 8-byte digest, big-endian; each bit of it votes, repeated n-grams
    repeatedly, and a tie counts as 1. A text of fewer than `ngram` words is one n-gram.
    """
    found = _WORD.findall(comparison_form(text))
    if not found:
        return 0
    grams = [" ".join(found[start : start + ngram]) for start in range(max(1, len(found) - ngram + 1))]
    digests = b"".join(hashlib.blake2b(gram.encode(), digest_size=8).digest() for gram in grams)
    ones = np.unpackbits(np.frombuffer(digests, np.uint8).reshape(-1, 8), axis=1).sum(axis=0, dtype=np.int64)
    return int.from_bytes(np.packbits(2 * ones >= len(grams)).tobytes())
