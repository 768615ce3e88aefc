"""What a detector is: a pattern that proposes, a check that decides, the span that a placeholder replaces."""

import re
from collections.abc import Callable
from typing import NamedTuple

Span = tuple[int, int]
Match = re.Match[str]
Check = Callable[[Match], Span | None]
"""The half-open range of characters of a true finding, None for a false one."""


class Detector(NamedTuple):
    kind: str
    """What is found: secret, email, phone, ip, id_card, bank_card."""
    name: str
    """Who found it; several detectors may share a kind."""
    pattern: re.Pattern[str]
    check: Check
    hint: str = ""
    """A cheaper pattern that matches wherever `pattern` does, for the first pass over the whole text. Only
    where it pays: long bounded repeats make large automata."""


class Finding(NamedTuple):
    kind: str
    start: int
    end: int
    detector: str


NOT_AFTER = r"(?<![0-9A-Za-z_.\-].)"
"""Numbers do not begin inside words, decimals, versions or identifiers. It stands behind a pattern's first
character: `re` finds that ten times faster than it looks back at every place. Not `\\b`: in Python a Chinese
character is a word character too, and 电话138… must be found."""
NOT_BEFORE = r"(?![0-9A-Za-z_]|[.\-][0-9])"
NO_TERM = r"(?<![+*/×÷^].)(?<![+*/=×÷^] .)"
"""Also behind the first character. Numbers that are calculated with are no phone or card numbers;
`tel=138...` may be one."""
NO_TERM_AFTER = r"(?! ?[+*/=×÷^%])"


def whole(match: Match) -> Span:
    return match.span()
