"""Normal forms of text: the published one, and one that keeps the layout that code needs.

The published rule strips every line, which destroys Python. We strip lines of prose, keep the layout of code
(records of the category code, and fenced blocks anywhere), and use the published form to compare texts.
"""

import re
import unicodedata

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SPACES = re.compile("[\t ]+")
_BLANK_LINES = re.compile("\n{3,}")
_TRAILING = re.compile("[\t ]+$", re.MULTILINE)
_FENCED = re.compile("^(```.*?^```[\t ]*$)", re.MULTILINE | re.DOTALL)


def normal_form(text: str) -> str:
    """The published normal form (fact sheet 1.5): LF line ends, NFKC, no control characters, runs of blanks
    as one space, stripped lines, at most one empty line in a row, stripped as a whole."""
    return _BLANK_LINES.sub("\n\n", _strip_lines(_plain(text))).strip()


def code_form(text: str) -> str:
    """The same for code: leading and inner blanks stay, only trailing ones go."""
    return _BLANK_LINES.sub("\n\n", _TRAILING.sub("", _plain(text))).strip("\n")


def prose_form(text: str) -> str:
    """`normal_form`, except that blocks fenced by lines of three backticks keep their layout."""
    if "```" not in text:
        return normal_form(text)
    pieces = _FENCED.split(_plain(text))
    forms = [
        _TRAILING.sub("", piece) if index % 2 else _strip_lines(piece) for index, piece in enumerate(pieces)
    ]
    return _BLANK_LINES.sub("\n\n", "".join(forms)).strip()


def comparison_form(text: str) -> str:
    """What two texts must share to count as the same: the published normal form, case-folded."""
    return normal_form(text).casefold()


def _plain(text: str) -> str:
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return _CONTROL.sub("", text)


def _strip_lines(text: str) -> str:
    return "\n".join(line.strip() for line in _SPACES.sub(" ", text).split("\n"))
