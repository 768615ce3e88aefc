r"""What a sentence without a box answers: its last number, with all that makes it another number.

>>> last_value("The area is 5 m^2."), last_value("The ratio is 3:4."), last_value("Tom is 5 ft 10 in tall")
('5 m^2', '3:4', '5 ft 10 in')
"""

import re
import string

from zgcm.rl.rewards.notation import with_caret
from zgcm.rl.rewards.quantities import OTHER_NUMBER, compound
from zgcm.rl.rewards.units import ABBREVIATIONS, unit
from zgcm.rl.rewards.words import plain

_NUMBER = re.compile(
    r"(?:(?<![A-Za-z0-9.)])[-−])?(?<![A-Za-z0-9_.])(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:/\d+)?(?:\s*\\?%)?|(?<![A-Za-z0-9_.])\.\d+"
)
_GLUE = frozenset(string.ascii_letters + string.digits + ".,^*/{}()√π×·⋅:!+-−–±∓_\\|")
"""Characters that make one expression with a number beside them: the 2 of `x^2`, the 3 of `\\sqrt{3}`."""
_WORD = r"(?:(?:square|cubic|sq|cu)\b\.?\s+)?[A-Za-z]+(?:\^\{?[23]\}?|[23](?!\d))?(?:\s+(?:squared|cubed)\b)?"
_UNIT = re.compile(rf"\s*(?:/\s*|per\s+)?{_WORD}(?:\s*(?:/|\bper\b)\s*{_WORD})*")
_FIRST = re.compile(rf"\s*{_WORD}")
_CHINESE = re.compile(r"\s*([\u4e00-\u9fff]{1,5}(?:/[\u4e00-\u9fff]{1,2})?)")
_CLOCK = re.compile(r"\s*[ap](?:m\b|\.\s?m\.)", re.I)
_PLAIN = r"[-−]?\d+(?:\.\d+)?(?:/\d+)?"
_NAMED = r"(?:(?<![A-Za-z])[A-Za-z](?:_\d)?\s*=\s*)?"
_LIST = re.compile(
    rf"(?<![\w.^,:/])(?:{_NAMED}{_PLAIN}\s*,\s*)*{_NAMED}{_PLAIN}\s*,?\s+(?:and|or)\s+{_NAMED}$"
)
_TUPLE = re.compile(r"(?:\\?\{|[(\[])[^()\[\]{}\s]{1,40}(?:,\s*[^()\[\]{}\s,]{1,40})+(?:\\?\}|[)\]])")
_OPERATOR = re.compile(r"(\S+)\s+([-+−±*/×÷·x:^<>≤≥√]|<=|>=)\s+$")
_OPERAND = re.compile(r"[(\[]*[-−]?(?:[A-Za-z]!?|π|\\pi|(?=\S*\d)[^\s,;A-Z]+)")
_BEFORE = re.compile(r"\d+(?:\.\d+)?\s*(?:[A-Za-z]+|[\u4e00-\u9fff]{1,3})\s*(?:,\s*)?(?:and\s+)?$")
_MIXED = re.compile(r"(?<![\w.,/])\d+\s+$")
_SCALE = re.compile(r"\s*(?:hundred|thousand|million|billion|trillion|dozen)s?\b")
_WORD_AFTER = re.compile(r"\s*(?:pi\b|π)|\s+[A-Za-z]+")
_RATIO = re.compile(rf"\b(?:ratio|odds|proportion)\b.*?(?<![\w.])((?:{_PLAIN}\s+to\s+)+)$")
_TERMS = (
    (re.compile(r"(?<![\w.,])(\w+)\s*\(?(?:in\s+)?base\s+$"), r"\1_"),
    (
        re.compile(
            rf"((?<![\w.,]){_PLAIN}%?\s+(?:choose|over|mod|modulo|plus|minus|times|divided\s+by|out\s+of|of|by)\s+)$"
        ),
        r"\1",
    ),
    (re.compile(r"(\b(?:sin|cos|tan|cot|sec|csc|ln|log(?:_\S+)?|exp|sqrt)\s+)$"), r"\1"),
    (re.compile(r"(\d+\s*['′]\s*)$"), r"\1"),
    (re.compile(r"(?<!\d )\b(?:minus|negative)\s+$|(?<=\b(?:is|be) )[-−]\s+$|(?<== )[-−]\s+$"), "-"),
)
"""What stands before a number and makes another one of it, and how it is written there."""
_NEAR = 200
"""Characters before a number in which what belongs to it is looked for."""


def last_value(text: str) -> str | None:
    """The last number of a sentence and what belongs to it: a unit, a power, the terms of a formula, the
    other members of a list. None without a number."""
    text = re.sub(r"(?<=[A-Za-z0-9)])\*\*(?=\d)", "^", with_caret(plain(text)))
    text = re.sub(r"(?<![\d.,])\d{1,3}(?: \d{3})+(?!\d)", lambda number: number[0].replace(" ", ""), text)
    numbers = list(_NUMBER.finditer(text))
    if not numbers:
        return None
    start, end = numbers[-1].span()
    for earlier in numbers[-4:-1][::-1]:  # the 2 of `5 m^2` is no number of its own
        if unit_end(text, _right(text, earlier.end())) > start:
            start, end = earlier.span()
    for group in _TUPLE.finditer(text, max(0, start - _NEAR)):
        if group.start() < start < group.end():
            return group[0]
    measured = _compound(text, start, end)
    if measured:
        return measured
    begin = _left(text, start)
    end = _right(text, end)
    after = unit_end(text, end)
    value = _trimmed(text[begin:end])
    opening = text[max(0, begin - _NEAR) : begin]
    if opening.endswith(("$", "£", "€", "¥")):
        return opening[-1].replace("$", "\\$") + value + text[end:after]
    return _with_terms(opening, value) + _written(text[end:after], value)


def unit_end(text: str, end: int) -> int:
    """Where what is surely a unit ends that stands right after `end`; `end` without one.

    In a sentence `in` is a unit only where nothing follows, and `5m` is a product.
    """
    if clock := _CLOCK.match(text, end):
        return clock.end()
    if degrees := re.compile(r"\s*°(?:\s*[CF]\b)?").match(text, end):
        return degrees.end()
    for pattern in (_UNIT, _FIRST):
        match = pattern.match(text, end)
        if match and _surely(match[0], text[match.end() :]):
            return match.end()
    if chinese := _CHINESE.match(text, end):
        for last in range(chinese.end(), chinese.start(1), -1):  # no space after the unit
            if unit(text[chinese.start(1) : last]).dimensions:
                return last
    return end


def _surely(words: str, rest: str) -> bool:
    name = words.strip()
    if name.lower() in ABBREVIATIONS:
        if name not in (*ABBREVIATIONS, "L") or (len(name) == 1 and name == words):
            return False
        return name != "in" or not re.match(r"\s*[\w(]", rest)
    parts = [part for part in re.split(r"/|\bper\b", name) if part.strip()]
    return all(unit(part).dimensions for part in parts)


def _written(words: str, value: str) -> str:
    """`5ft` is five feet in a sentence, and a product in a formula; `3 x 10^5 m` as well."""
    if re.fullmatch(r"[\d.,]+", value) or not (known := _FIRST.fullmatch(words)):
        return " " + words if words.lower() in ABBREVIATIONS else words
    name, _, power = known[0].strip().partition("^")
    return rf"\text{{ {name}}}" + (f"^{power}" if power else "")


def _compound(text: str, start: int, end: int) -> str | None:
    """`2 hours and 15 minutes`, where the last number is the 15."""
    word = re.compile(r"\s*[A-Za-z]+").match(text, end)
    end = word.end() if word else unit_end(text, end)
    found, begin = None, start
    while before := _BEFORE.search(text, max(0, begin - 40), begin):
        begin = before.start()
        if compound(text[begin:end]) is None:
            return found
        found = text[begin:end]
    return found


def _left(text: str, start: int) -> int:
    while start and text[start - 1] in _GLUE:
        if text[start - 1] == ":" and not re.fullmatch(r"[\d)]", text[max(0, start - 2) : start - 1]):
            break  # `Total:5`
        start -= 1
    return start


def _right(text: str, end: int) -> int:
    """Where the expression ends that a number begins, or is part of; its unit does not belong to it."""
    if scale := _SCALE.match(text, end):
        return scale.end()
    if word := _WORD_AFTER.match(text, end):
        name = word[0].lower().strip()
        if name in ("pi", "π") or OTHER_NUMBER.search(name):
            return word.end()
    if unit_end(text, end) > end:
        return end
    if re.compile(r"(?:st|nd|rd|th)\b|-[A-Za-z]{2}").match(text, end):
        return end  # the 3rd, a 24-hour day
    while end < len(text) and text[end] in _GLUE:
        if text[end] == "!" and not re.compile(r"!+\s*[a-z+*/=^-]").match(text, end):
            break  # the end of a sentence, and no factorial
        end += 1
    return end


def _trimmed(value: str) -> str:
    value = value.lstrip("*,:/)}").rstrip(".,:;*({/-–+_^\\")
    if value.count("|") == 1:
        value = value.strip("|")
    for opening, closing in ("()", "{}"):
        if value.startswith(opening) and closing not in value:
            value = value[1:]
        if value.endswith(closing) and value.count(closing) > value.count(opening):
            value = value[:-1].rstrip(".,*")
    return value


def _with_terms(opening: str, value: str) -> str:
    """With the terms before it that spaces part from it: `7 / 8`, `x^2 + 5`, `3 1/2`, `2, 5 or 7`."""
    if members := _LIST.search(opening):
        return members[0] + value
    if re.fullmatch(r"\d+/\d+", value) and (whole := _MIXED.search(opening)):
        return whole[0] + value
    if ratio := _RATIO.search(opening):
        return re.sub(r"\s+to\s+", ":", ratio[1]) + value
    for pattern, written in _TERMS:
        if before := pattern.search(opening):
            return before.expand(written) + value
    while term := _OPERATOR.search(opening):
        if not _OPERAND.fullmatch(term[1]):
            return value
        sign = "×" if term[2] == "x" else term[2]
        value = f"{term[1]} {sign} {value}"
        opening = opening[: term.start()]
    return value
