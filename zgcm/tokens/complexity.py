"""Lexical complexity of a text: how varied its words are, times how long. It orders curriculum mixes.

The published recipe orders general text "from low to high lexical complexity" and does not say by which
formula; this one is ours. Both factors need no word list and no corpus statistics, and neither grows with the
length of the text: variety is the mean segmental type-token ratio (Johnson 1944), segments of 50 words.
"""

import math
import re

SEGMENT = 50
"""Words of a segment. A shorter text is one segment, corrected by the root of its length (Guiraud 1954)."""
MAX_CHARACTERS = 100_000
"""Only the beginning of a longer text is measured: 1 ms per 10,000 characters adds up."""

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\d_]+")
"""A run of letters; a Chinese, Japanese or Korean character is a word of its own."""


def lexical_complexity(text: str) -> float:
    """Variety (0 to 1) times mean word length in letters; NaN for a text without words."""
    words = _WORD.findall(text[:MAX_CHARACTERS].casefold())
    if not words:
        return math.nan
    return _variety(words) * sum(map(len, words)) / len(words)


def _variety(words: list[str]) -> float:
    if len(words) < SEGMENT:
        return len(set(words)) / math.sqrt(SEGMENT * len(words))
    starts = range(0, len(words) - SEGMENT + 1, SEGMENT)
    return sum(len(set(words[start : start + SEGMENT])) for start in starts) / (SEGMENT * len(starts))
