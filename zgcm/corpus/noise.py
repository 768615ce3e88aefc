"""Patterns in raw text that usually mean noise: what `zgcm profile` counts, and what to do about each."""

import re
from collections.abc import Iterator

from zgcm.corpus.steps.web import MIN_UNIQUE_LINES, boilerplate_count

LOOKED_AT = 20_000
"""Characters of the beginning that are looked at."""
LONG_LINE = 10_000
_PATTERNS = {
    "control characters": re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"),
    "replacement characters": re.compile("\ufffd"),
    "think tags": re.compile("</?think>", re.IGNORECASE),
    "chat template tokens": re.compile(
        r"<\|[A-Za-z_]{2,40}\|>|\[gMASK\]|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>|<[|\uff5c][^<>\n]{2,40}[|\uff5c]>"
    ),
    "html": re.compile(
        r"</?(?:p|div|span|br|a|li|ul|table|td|tr|script|style|img)\b[^<>]{0,200}>", re.IGNORECASE
    ),
    "html entities": re.compile(r"&(?:amp|lt|gt|quot|nbsp|#\d{2,5});"),
    "mojibake": re.compile("\u00c3[\u0080-\u00bf]|\u00e2\u20ac"),
    "windows line ends": re.compile("\r"),
}
ADVICE = {
    "control characters": "cleaning removes them",
    "replacement characters": "the text was decoded wrongly once; drop such records in a profile",
    "think tags": "stage posttrain moves them to reasoning_content",
    "chat template tokens": "text of another model's template; drop such records in a profile",
    "html": "extract the text first, or drop such records in a profile",
    "html entities": "unescape them before cleaning",
    "mojibake": "the text was decoded wrongly once; repair it before cleaning",
    "windows line ends": "cleaning makes them line feeds",
    "boilerplate": "category web sends pages with four or more of these phrases to review",
    "repeated lines": "category web drops such pages",
    "very long lines": "minified or encoded data; drop such records in a profile",
    "no text found": "name the text's field in text_fields or field_map",
}


def noise_in(text: str) -> Iterator[str]:
    """Names of the patterns that a text holds."""
    text = text[:LOOKED_AT]
    yield from (name for name, pattern in _PATTERNS.items() if pattern.search(text))
    if boilerplate_count(text):
        yield "boilerplate"
    lines = [stripped for line in text.split("\n") if (stripped := line.strip())]
    if len(lines) > 3 and len(set(lines)) / len(lines) < MIN_UNIQUE_LINES:
        yield "repeated lines"
    if any(len(line) > LONG_LINE for line in lines):
        yield "very long lines"
