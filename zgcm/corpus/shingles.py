"""Words of a text, and 64-bit hashes of every run of n words: what near-duplicates and contamination compare.

A word is a run of letters, digits and underscores of the comparison form (NFKC, case-folded); punctuation and
spacing separate words and do not count. In scripts written without spaces between words (Chinese, Japanese,
Thai, Lao, Burmese, Khmer) every character is a word.
"""

import re

import numpy as np
import xxhash

from zgcm.corpus.text import comparison_form

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
_ASCII_WORDS = bytes(
    byte if chr(byte).isalnum() or byte == ord("_") else ord(" ") for byte in range(128)
).ljust(256)
"""Translation table: everything that is not of a word becomes a blank. Six times faster than a pattern."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, so that multiplying by it loses nothing; 2^64 / golden ratio
_MIX = np.uint64(0xBF58476D1CE4E5B9)  # of SplitMix64's finaliser


def words(text: str) -> list[bytes]:
    """The normalised words of a text in order, in UTF-8."""
    form = comparison_form(text)
    if form.isascii():
        return form.encode().translate(_ASCII_WORDS).split()
    return [word.encode() for word in _WORD.findall(form)]  # \w matches no lone surrogate


def word_hashes(tokens: list[bytes]) -> np.ndarray:
    """uint64 (len(tokens),): xxh3-64 of each word."""
    return np.fromiter(map(xxhash.xxh3_64_intdigest, tokens), np.uint64, len(tokens))


def gram_hashes(hashes: np.ndarray, width: int) -> np.ndarray:
    """uint64 hash of every run of `width` words, in order: max(0, N - width + 1) of them.

    A polynomial in the words' hashes modulo 2^64, then mixed. Two different runs agree with probability
    2^-64, near enough: a document of 10^5 runs meets a false one among 10^9 others once in 10^5 documents.
    """
    count = len(hashes) - width + 1
    if count <= 0:
        return np.empty(0, np.uint64)
    total = hashes[:count].copy()
    for place in range(1, width):
        total *= _FACTOR
        total += hashes[place : place + count]
    total ^= total >> np.uint64(31)
    total *= _MIX
    total ^= total >> np.uint64(29)
    return total


def shingles(text: str, width: int) -> np.ndarray:
    """The set of a text's shingles as ascending uint64 hashes: runs of `width` words, or, of a shorter text,
    one run of all its words. Empty for a text without words."""
    hashes = word_hashes(words(text))
    if not len(hashes):
        return hashes
    return np.unique(gram_hashes(hashes, min(width, len(hashes))))


def jaccard(first: np.ndarray, second: np.ndarray) -> float:
    """|A and B| / |A or B| of two sets of ascending distinct hashes, not both empty."""
    both = np.concatenate([first, second])
    both.sort(kind="stable")  # merges the two runs
    shared = int((both[1:] == both[:-1]).sum())
    return shared / (len(both) - shared)
