"""Normal forms of text: the published one, and one that keeps the layout that code needs.

The published rule strips every line, which destroys Python. We strip lines of prose, keep the layout of code
(records of the category code, and fenced blocks anywhere), and use the published form to compare texts.

Plain string methods first: a pattern that replaces runs of blanks took three quarters of all cleaning time
(now it sees stripped lines, with few runs), and one that finds trailing blanks takes quadratic time.
"""

import re
import unicodedata

_CONTROLS = [chr(code) for code in (*range(9), 0x0B, 0x0C, *range(0x0E, 0x20), 0x7F)]
_NOTHING = dict.fromkeys(map(ord, _CONTROLS))
_WIDE = [(wide, unicodedata.normalize("NFKC", wide)) for wide in "，：；！？（）\u3000"]
"""Chinese punctuation that NFKC narrows. With it replaced most Chinese texts are normal, which takes a
fifteenth of the time to see that normalising takes; the result is the same."""
_BLANKS = re.compile("  +")
_FENCED = re.compile("^(```.*?^```[\t ]*$)", re.MULTILINE | re.DOTALL)


def normal_form(text: str) -> str:
    """The published normal form: LF line ends, NFKC, no control characters, runs of blanks
    as one space, stripped lines, at most one empty line in a row, stripped as a whole."""
    return _few_empty_lines(_strip_lines(_plain(text))).strip()


def code_form(text: str) -> str:
    """The same for code: leading and inner blanks stay, only trailing ones go."""
    return _few_empty_lines(_strip_line_ends(_plain(text))).strip("\n")


def prose_form(text: str) -> str:
    """`normal_form`, except that blocks fenced by lines of three backticks keep their layout."""
    if "```" not in text:
        return normal_form(text)
    pieces = _FENCED.split(_plain(text))
    pieces[::2] = map(_strip_lines, pieces[::2])
    pieces[1::2] = map(_strip_line_ends, pieces[1::2])
    return _few_empty_lines("".join(pieces)).strip()


def comparison_form(text: str) -> str:
    """What two texts must share to count as the same: the published normal form, case-folded."""
    return normal_form(text).casefold()


def is_settled(text: str) -> bool:
    """Whether a result of `normal_form` is its own normal form. It nearly always is; but removing a control
    character can bring a letter and its accent together."""
    return text.isascii() or unicodedata.is_normalized("NFKC", text)


def _plain(text: str) -> str:
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.isascii():
        for wide, plain in _WIDE:
            if wide in text:
                text = text.replace(wide, plain)
        text = unicodedata.normalize("NFKC", text)
    for control in _CONTROLS:  # thirty searches at memory speed cost less than one translation
        if control in text:
            return text.translate(_NOTHING)
    return text


def _strip_lines(text: str) -> str:
    text = "\n".join(map(str.strip, text.split("\n"))).replace("\t", " ")
    return _BLANKS.sub(" ", text) if "  " in text else text


def _strip_line_ends(text: str) -> str:
    return "\n".join([line.rstrip(" \t") for line in text.split("\n")])


def _few_empty_lines(text: str) -> str:
    return _replace_all(text, "\n\n\n", "\n\n")


def _replace_all(text: str, long: str, short: str) -> str:
    """Shorten runs until none is left; each pass halves them or nearly so."""
    while long in text:
        text = text.replace(long, short)
    return text
