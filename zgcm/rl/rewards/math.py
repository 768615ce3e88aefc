r"""Is an answer mathematically equal to the gold label?

The answer is found first (`candidate`), then compared by shape, part by part (zgcm.rl.rewards.structure); the
parts are parsed by math-verify's parser and compared by value (zgcm.rl.rewards.expressions). Runs in a
killable process (zgcm.rl.rewards.worker): sympy may take for ever on `9^{9^{9^{9}}}`.
"""

import re

from zgcm.rl.completion import boxed_spans, last_boxed
from zgcm.rl.rewards.sentence import last_value, unit_end

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_BETWEEN_BOXES = re.compile(
    r"(?:[\s$,;]|\\text\s*\{\s*(?:and|or)\s*\}|\\q?quad|\band\b|\bor\b|和|或者?|与|、|[a-z](?:_\{?\d\}?)?\s*=)+"
)
_ANSWER_IS = r"\banswers?\b[\s*]*(?:\b(?:is|are)\b|[:=])(?:\s*:)?|答案[\s*]*(?:[是为](?:\s*[:：])?|[:：])"
_ANCHOR = re.compile(rf"####|{_ANSWER_IS}|\boption\s+(?:is\s+)?(?=\(?[A-J]\b)", re.I)
_INTRODUCTION = re.compile(rf"\s*(?:(?:the\s+)?(?:{_ANSWER_IS})|答\s*[:：])\s*", re.I)
_SENTENCE_END = re.compile(r"\n|。|[.,;!](?=\s|$)|\b(?:because|since)\b")
MOST_BOXES = 20
"""Of one answer. More are a model that repeats itself."""
_MATH = re.compile(r"\$\$(.+?)\$\$|\$(.+?)\$|\\\(((?:(?!\\\().)+?)\\\)|\\\[((?:(?!\\\[).)+?)\\\]", re.S)
"""An opening that never closes ends at the next one: 60,000 of them are read in one pass."""


def candidate(answer: str) -> str:
    r"""The part of a visible answer that is compared.

    Its last `\boxed{}`, or the last few where nothing but a comma or `and` stands between them (all of them
    are the answer). Without a box what follows "the answer is"; else the last formula of the last line, else
    its last number and what belongs to it, else the answer as it is.
    """
    boxes = boxed_spans(answer)
    if boxes:
        last = [boxes[-1]]
        for box in reversed(boxes[-MOST_BOXES:-1]):
            between = answer[box[1] : last[0][0]]
            if len(between) > 60 or not _BETWEEN_BOXES.fullmatch(between):
                break
            last.insert(0, box)
        return ", ".join(dict.fromkeys(_without_introduction(content) for _, _, content in last))
    text = answer.strip()
    anchors = list(_ANCHOR.finditer(text))
    if anchors:
        rest = text[anchors[-1].end() :].replace("**", "").strip()
        if formula := _MATH.match(rest):
            return _inside(formula)
        return _SENTENCE_END.split(rest, maxsplit=1)[0].strip()
    last_line = text.splitlines()[-1] if text else ""
    formulas = list(_MATH.finditer(last_line))
    after = last_line[formulas[-1].end() :] if formulas else last_line
    if formulas and (end := unit_end(after, 0)):
        return _inside(formulas[-1]) + after[:end]
    value = last_value(after) if re.search(r"[A-Za-z\u4e00-\u9fff]{2,}", after) else None
    if value is not None:
        return value
    return _inside(formulas[-1]) if formulas else text


def _without_introduction(content: str) -> str:
    introduction = _INTRODUCTION.match(content)
    return content[introduction.end() :] if introduction else content


def _inside(formula: re.Match[str]) -> str:
    return next(group for group in formula.groups() if group is not None).strip()


def decided_without_parsing(found: str, gold: str) -> bool | None:
    """Equality of two plainly written integers; None when a parser must decide.

    Never differs from `equal` (a test compares them); it saves milliseconds a pair.
    """
    if not _INTEGER.fullmatch(found) or not _INTEGER.fullmatch(gold.strip()):
        return None
    return found == gold.strip()


def equal(found: str, gold: str, tolerance: float = 0.0) -> bool:
    """Whether an answer (`candidate`) means what the label says. Has no time limit.

    `tolerance` is relative, and forgives rounding where one of the two is written as a decimal; 0 is strict.
    A text that cannot be read whole is equal only to itself.
    """
    from zgcm.rl.rewards.structure import same

    boxed = last_boxed(gold)
    return same(found, gold if boxed is None else boxed, tolerance)
