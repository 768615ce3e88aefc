"""Answers in words: yes, Monday, 无解, option (B), three."""

import re

from zgcm.rl.rewards.notation import matching

_NUMBERS = [
    *(
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
    ),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
]
_SYNONYMS = {
    **dict.fromkeys(
        ("no solution", "no solutions", "no real solution", "no real solutions", "no real roots", "empty set",
         "none exist", "无解", "无实数解", "空集", r"\emptyset", r"\{\}", r"\{ \}"), "no solution"
    ),
    **dict.fromkeys(("does not exist", "dne", "不存在", "undefined"), "does not exist"),
    **dict.fromkeys(("yes", "是", "是的"), "yes"),
    **dict.fromkeys(("no", "否", "不是"), "no"),
    **dict.fromkeys(("true", "正确", "对"), "true"),
    **dict.fromkeys(("false", "错误", "错"), "false"),
}  # fmt: skip
_FUNCTIONS = {"sin", "cos", "tan", "log", "exp", "max", "min", "gcd", "lcm", "mod"}
_VARIABLES = set("xyzabcnkmpqrstuvw")


def plain(text: str) -> str:
    r"""Without `\text{...}` round any part."""
    while match := re.search(r"\\text\s*(?=\{)", text):
        end = matching(text, match.end())
        if end is None:
            return text
        text = text[: match.start()] + text[match.end() + 1 : end] + text[end + 1 :]
    return " ".join(text.split())


def choice(text: str) -> tuple[str, str]:
    """(letter, rest) of an option of a multiple choice: `(B)`, `B. 12`, `(E) 9`; ("", "") for others."""
    match = re.fullmatch(r"(?:\(([A-J])\)|([A-J])(?:[.:)]|(?=$)))\s*(.*)", plain(text), re.S)
    return ((match[1] or match[2]), match[3]) if match else ("", "")


def as_number(text: str) -> str:
    """`three` -> `3`; other texts as they are."""
    word = plain(text).lower()
    return str(_NUMBERS.index(word)) if word in _NUMBERS else text


def is_words(text: str) -> bool:
    r"""Whether a text is prose and no formula: words of letters, a phrase in `\text`, Chinese."""
    if re.fullmatch(r"\\text\s*\{[^{}]*[A-Za-z]{2,}[^{}]*\}", text) or text in (r"\emptyset", r"\{\}"):
        return True
    if re.search(r"[\u4e00-\u9fff]", text) and not re.search(r"\d|\\[a-z]", text):
        return True
    if not re.fullmatch(r"[A-Za-z][A-Za-z' .-]*", text):
        return False
    letters = re.sub(r"[^A-Za-z]", "", text)
    if letters.lower() in _FUNCTIONS or len(letters) < 2:
        return False
    return len(re.split(r"[^A-Za-z]", text)[0]) > 3 or not set(letters.lower()) <= _VARIABLES


def same_words(found: str, gold: str) -> bool | None:
    """Equality of two answers in words; None when both are formulas, False when one is."""
    if not (is_words(found) or is_words(gold)):
        return None
    if _normal(found) == _normal(gold):
        return True
    if is_words(found) and is_words(gold):
        return False
    if re.search("real numbers|实数", found + gold):
        return None  # may stand for an interval
    if re.search("[,=]|和|与|或| or | and ", found + gold):
        return None  # perhaps a list, some parts of it words
    return False


def _normal(text: str) -> str:
    text = plain(text).strip(" .!?\"'").casefold()
    text = re.sub(r"^(?:a|an|the)\s+", "", text)
    return _SYNONYMS.get(text, text)
