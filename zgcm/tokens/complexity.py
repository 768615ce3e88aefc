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

CHARACTER_LETTERS = 4.7
"""What a Chinese, Japanese or Korean character counts for: the mean word of English (4.79 letters, Norvig
2012), rounded down. Texts of both scripts then compare by their variety. By one letter a character, every
Chinese text would be an outlier beside English ones."""
_CHARACTER = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\d_]+")
"""A run of letters; a Chinese, Japanese or Korean character is a word of its own."""
_ASCII = bytes(letter | 32 if chr(letter).isalpha() and letter < 128 else 32 for letter in range(256))
"""ASCII letters as lower case, all else a space: the same words as the pattern's, at a tenth of the time."""


def lexical_complexity(text: str) -> float:
    """Variety (0 to 1) times mean word length in letters; NaN for a text without words."""
    text = text[:MAX_CHARACTERS]
    words = _words(text)
    if not words:
        return math.nan
    return _variety(words) * _letters(text, words) / len(words)


def _words(text: str) -> list[str]:
    """Case-folded. No word crosses a line end, so one curly quote slows only its own line down."""
    if text.isascii():
        return text.encode().translate(_ASCII).decode().split()
    lines = text.split("\n")
    if len(lines) == 1:
        return _WORD.findall(text.casefold())
    return [word for line in lines for word in _words(line)]


def _letters(text: str, words: list[str]) -> float:
    letters = sum(map(len, words))
    return letters if text.isascii() else letters + (CHARACTER_LETTERS - 1) * len(_CHARACTER.findall(text))


def _variety(words: list[str]) -> float:
    if len(words) < SEGMENT:
        return len(set(words)) / math.sqrt(SEGMENT * len(words))
    starts = range(0, len(words) - SEGMENT + 1, SEGMENT)
    return sum(len(set(words[start : start + SEGMENT])) for start in starts) / (SEGMENT * len(starts))
