r"""Sets of real numbers, however written: `[0, 1)`, `0 \le x < 1`, `(-\infty, 2) \cup (3, \infty)`."""

import re
from dataclasses import dataclass

from zgcm.rl.rewards.notation import matching, split

_SIGN = r"\\(?:le|ge)(?![A-Za-z])|[<>]"
_VARIABLE = re.compile(r"[a-zA-Z]|\\(?:theta|alpha|lambda|mu)|f\(x\)")
_UNION = (
    r"\\cup\b|\\lor\b|\\vee\b|\\text\s*\{\s*,?\s*or\s*\}|(?<![A-Za-z\\])or(?![A-Za-z])|或者?"
    r"|,(?=[^()\[\]]*(?:[<>]|\\[lg]e))"
)
_BOTH = r"\\land\b|\\wedge\b|\\text\s*\{\s*and\s*\}|(?<![A-Za-z\\])and(?![A-Za-z])|且"
_REALS = re.compile(r"\\mathbb\s*\{?R\}?|(?:\\text\s*\{)?\s*all real numbers\s*\}?|全体实数|一切实数", re.I)
_INFINITE = {True: r"\infty", False: r"-\infty"}


@dataclass(frozen=True)
class Interval:
    low: str
    high: str
    closed: tuple[bool, bool]
    """Whether the low and the high end belong to it."""


def is_region(text: str) -> bool:
    """Whether only a set of real numbers is written so (`(1, 2)` may be a point)."""
    inside = bool(re.search(rf"{_SIGN}|\\cup\b|\\in(?![A-Za-z])", text))
    return inside or bool(_REALS.fullmatch(text.strip()))


def region(text: str) -> list[Interval] | None:
    """Its intervals in the order of writing; None for what is no such set, or holds two variables."""
    text = text.strip()
    builder = re.fullmatch(
        r"\\\{\s*[A-Za-z]\s*(?:\\in\s*\\mathbb\{?R\}?\s*)?(?:\\mid\b|\\vert\b|[|:])(.*)\\\}", text
    )
    text = builder[1].strip() if builder else text
    text = re.sub(r"^\s*[A-Za-z]\s*\\in(?![A-Za-z])\s*", "", text)
    if _REALS.fullmatch(text):
        return [Interval(_INFINITE[False], _INFINITE[True], (False, False))]
    both = split(text, _BOTH)
    if len(both) == 2:
        return _intersection(*both)
    parts = [_interval(part) for part in split(text, _UNION)]
    return None if any(part is None for part in parts) else [part for part in parts if part is not None]


def _intersection(one: str, other: str) -> list[Interval] | None:
    halves = [_interval(one), _interval(other)]
    low = [half for half in halves if half and half.high == _INFINITE[True] and half.low != _INFINITE[False]]
    high = [half for half in halves if half and half.low == _INFINITE[False] and half.high != _INFINITE[True]]
    if len(low) != 1 or len(high) != 1:
        return None
    return [Interval(low[0].low, high[0].high, (low[0].closed[0], high[0].closed[1]))]


def _interval(text: str) -> Interval | None:
    if text[:1] in ("(", "[") and matching(text, 0) == len(text) - 1:
        ends = split(text[1:-1], ",")
        if len(ends) != 2:
            return None
        return Interval(_end(ends[0]), _end(ends[1]), (text[0] == "[", text[-1] == "]"))
    parts, signs = split(text, _SIGN), re.findall(_SIGN, text)
    if len(parts) != len(signs) + 1:
        return None
    if signs and all(sign in (">", r"\ge") for sign in signs):
        parts, signs = parts[::-1], [{">": "<", r"\ge": r"\le"}[sign] for sign in signs[::-1]]
    if not all(sign in ("<", r"\le") for sign in signs):
        return None
    closed = [sign == r"\le" for sign in signs]
    if len(parts) == 3 and _VARIABLE.fullmatch(parts[1]):
        return Interval(_end(parts[0]), _end(parts[2]), (closed[0], closed[1]))
    if len(parts) == 2 and _VARIABLE.fullmatch(parts[0]) and not _VARIABLE.fullmatch(parts[1]):
        return Interval(_INFINITE[False], _end(parts[1]), (False, closed[0]))
    if len(parts) == 2 and _VARIABLE.fullmatch(parts[1]) and not _VARIABLE.fullmatch(parts[0]):
        return Interval(_end(parts[0]), _INFINITE[True], (closed[0], False))
    return None


def _end(text: str) -> str:
    return re.sub(r"^\+\s*(?=\\infty)", "", text.strip())
