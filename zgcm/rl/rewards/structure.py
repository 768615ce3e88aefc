r"""The shape of an answer: lists, sets, tuples, intervals, matrices, equations; compared part by part.

Parts, not whole texts, go to the formula comparison (zgcm.rl.rewards.expressions), so a guard against false
equality holds inside `\{1, 2\}` and `(0, \sqrt{2})` too.
"""

import re
from collections.abc import Callable, Sequence

from zgcm.rl.rewards.expressions import Unreadable, same_equation, same_formula, verified
from zgcm.rl.rewards.notation import matching, spelled, split
from zgcm.rl.rewards.quantities import clock, compound, quantity, readings
from zgcm.rl.rewards.regions import is_region, region
from zgcm.rl.rewards.words import as_number, choice, is_words, same_words

_AND_OR = (
    r"\s*(?:,|;|\\text\s*\{\s*,?\s*(?:and|or)\s*\}|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])|\\lor\b|\\vee\b|\\land\b"
    r"|或者?|和|与|以及)\s*"
)
_NAME = re.compile(
    r"(?:[A-Za-z]|\\(?:alpha|beta|gamma|delta|theta|lambda|mu|phi|omega|angle\s*[A-Z]+)|\\text\s*\{[^{}]*\}|[A-Z]{2,3})"
    r"(?:_(?:\w|\{\w+\}))?'*(?:\s*\([^()]*\))?|\([A-Za-z](?:_\w)?(?:\s*,\s*[A-Za-z](?:_\w)?)*\)|[A-Za-z]{2,}"
)
_MATRIX = re.compile(
    r"\\begin\s*\{([pbvBV]?)(?:small)?matrix\}(.*)\\end\s*\{[pbvBV]?(?:small)?matrix\}", re.S
)
_RELATION = re.compile(r"[<>]|\\(?:le|ge|ne)(?![A-Za-z])")
_FUNCTION = re.compile(r"([A-Za-z])\s*\(([k-nq-z])\)\s*=(.*)")
_SYMBOL = re.compile(r"\\text\s*\{[^{}]*\}|\\[A-Za-z]+|[A-Za-z]")
_BASE = re.compile(r"\(?([0-9A-F]+)\)?_(?:\{(\d+)\}|(\d))")
Same = Callable[[str, str], bool]


def same(found: str, gold: str, tolerance: float = 0.0) -> bool:
    """Whether two answers mean the same. Unreadable ones are equal only when they are spelled alike."""
    found, gold = spelled(found), spelled(gold)
    if not found or not gold:
        return False
    if _squeezed(found) == _squeezed(gold):
        return True
    letter, rest = choice(gold)
    if letter:
        answered, answered_rest = choice(found)
        if answered:
            return answered == letter
        return bool(rest) and _same(found, rest, tolerance)
    answered, answered_rest = choice(found)
    if answered and answered_rest:
        return _same(answered_rest, gold, tolerance)
    return _same(found, gold, tolerance)


def _same(found: str, gold: str, tolerance: float) -> bool:
    found, gold = _unwrapped(found), _unwrapped(gold)
    if _squeezed(found) == _squeezed(gold):
        return True
    verdict = same_words(found, gold)
    if verdict is not None:
        return verdict

    def part(one: str, other: str) -> bool:
        return _same(one, other, tolerance)

    if is_region(found) or is_region(gold):
        one, other = region(found), region(gold)
        if one is not None and other is not None:
            return _matched(
                one, other,
                lambda a, b: a.closed == b.closed and part(a.low, b.low) and part(a.high, b.high),
            )  # fmt: skip
    for comparison in (_matrices, _clocks, _ratios, _compounds, _lists, _equations):
        verdict = comparison(found, gold, part)
        if verdict is not None:
            return verdict
    if _RELATION.search(found) or _RELATION.search(gold):
        return _same_relation(found, gold, part)
    return _same_quantity(found, gold, tolerance) or verified(found, gold)


def _squeezed(text: str) -> str:
    return re.sub(r"(?<!\d)\s+|\s+(?!\d)|\\text\s*(?=\{)", "", text)


def _unwrapped(text: str) -> str:
    r"""Without `\text{...}`, braces or parentheses round the whole; `(1, 2)` keeps its own."""
    while True:
        text = as_number(text.strip())
        opening = len(r"\text") + text[5:].find("{") if re.match(r"\\text\s*\{", text) else 0
        if text[opening : opening + 1] not in ("{", "(") or matching(text, opening) != len(text) - 1:
            return text
        inside = text[opening + 1 : -1]
        if text[opening] == "(" and (len(split(inside, ",")) > 1 or text[-1] != ")"):
            return text
        text = inside


def _matched(one: Sequence[object], other: Sequence[object], equal: Callable[..., bool]) -> bool:
    """Each member has its like on the other side, whatever the order; repetitions do not count."""
    return (
        bool(one)
        and all(any(equal(a, b) for b in other) for a in one)
        and all(any(equal(a, b) for a in one) for b in other)
    )


# ---- lists, sets, tuples, intervals


def _brackets(text: str) -> tuple[str, list[str], str] | None:
    """(opening, members, closing) of a tuple, interval, set or `\\langle a, b\\rangle`; None for others."""
    text = re.sub(r"^[A-Z]\s*(?=\([^()]*,)", "", text)  # a point's name: P(1, 2)
    text = re.sub(r"\\langle\b", "(", re.sub(r"\\rangle\b", ")", text)).strip()
    if text.startswith(r"\{") and text.endswith(r"\}") and matching(text, 1) == len(text) - 1:
        return r"\{", [item for item in split(text[2:-2], "[,;]") if item], r"\}"
    if text[:1] in ("(", "[") and matching(text, 0) == len(text) - 1 and text[-1] in ")]":
        members = split(text[1:-1], ",")
        if len(members) > 1 or text[0] == "[":
            return text[0], members, text[-1]
    return None


def _members(text: str) -> list[str]:
    """The parts of an unbracketed list: commas, words, and both signs of `\\pm`."""
    parts = [part for part in split(text, _AND_OR) if part]
    return [
        form
        for part in parts
        for form in (
            [part.replace(r"\pm", "+").replace(r"\mp", "-"), part.replace(r"\pm", "-").replace(r"\mp", "+")]
            if re.search(r"\\[pm]{2}(?![A-Za-z])", part)
            else [part]
        )
    ]


def _lists(found: str, gold: str, part: Same) -> bool | None:
    found, gold = _without_tuple_name(found), _without_tuple_name(gold)
    one, other = _brackets(found), _brackets(gold)
    if one and other and r"\{" not in (one[0], other[0]):
        same_ends = (one[0], one[2]) == (other[0], other[2]) or len(one[1]) > 2
        return (
            same_ends
            and len(one[1]) == len(other[1])
            and all(part(a, b) for a, b in zip(one[1], other[1], strict=True))
        )
    many, others = _many(found, one), _many(gold, other)
    if len(many) == 1 and len(others) == 1 and not (one or other):
        return None
    ordered = [r"\{" not in side[0] and side[2] == ")" for side in (one, other) if side]
    if any(ordered):  # a tuple against a bare list: the same order, or x = 1, y = 2
        many, others = _right_sides(many), _right_sides(others)
        return len(many) == len(others) and all(part(a, b) for a, b in zip(many, others, strict=True))
    if (one and other is None and one[0] == "[") or (other and one is None and other[0] == "["):
        return False
    return _matched(*_solutions(many, others), part)


def _many(text: str, brackets: tuple[str, list[str], str] | None) -> list[str]:
    if brackets is not None:
        return [form for member in brackets[1] for form in _members(member)]
    compact = re.fullmatch(r"[A-E]{2,5}", text)  # several options of a multiple choice: AC
    if compact:
        return list(text)
    left, right = _sides(text)
    if left and r"\pm" in right and not re.search(_AND_OR, right):
        return _members(right)
    if left and len(parts := _members(right)) > 1 and not any("=" in item for item in parts):
        return parts  # x = 1, 2
    return _members(text)


def _without_tuple_name(text: str) -> str:
    left, right = _sides(text)
    return right if left and right[:1] in ("(", "[", "\\") and _brackets(right) else text


def _right_sides(items: list[str]) -> list[str]:
    return [right if left else item for item in items for left, right in [_sides(item)]]


def _solutions(one: list[str], other: list[str]) -> tuple[list[str], list[str]]:
    """Names of roots dropped (x_1 = 3, x_2 = -1) where only one side has them, or both have the same one."""
    names = [
        {re.sub(r"_.*", "", left) for item in items for left in [_sides(item)[0]]} for items in (one, other)
    ]
    if all(len(each) == 1 for each in names) and (names[0] == names[1] or {""} in names):
        return _right_sides(one), _right_sides(other)
    return one, other


# ---- equations


def _sides(text: str) -> tuple[str, str]:
    """(name, value) of `x = 5`, `f(x) = ...`, `5 = x`; ("", text) for everything else."""
    sides = split(text, r"(?<![<>])=")
    if len(sides) == 2:
        for name, value in (sides, reversed(sides)):
            if _NAME.fullmatch(name) and not re.fullmatch(r"\d+", value and name):
                return name, value
    return "", text


def _with_argument_of(gold: str, found: str) -> str:
    """f(n) = n + 1 as f(x) = x + 1 where the label says f(x): a bound variable may have any name.

    P(A) = 0.3 is not P(B) = 0.3, nor f(a) = a + 1 f(b) = b + 1: those are no bound variables.
    """
    one, other = (_FUNCTION.fullmatch(text) for text in (found, gold))
    if not (one and other) or one[1] != other[1] or one[2] not in _SYMBOL.findall(one[3]):
        return found
    if other[2] in _SYMBOL.findall(found):
        return found  # it has another meaning there
    return _SYMBOL.sub(lambda symbol: other[2] if symbol[0] == one[2] else symbol[0], found)


def _equations(found: str, gold: str, part: Same) -> bool | None:
    found = _with_argument_of(gold, found)
    one, other = split(found, r"(?<![<>])="), split(gold, r"(?<![<>])=")
    if len(one) == 1 and len(other) == 1:
        return None
    name, value = _sides(found)
    gold_name, gold_value = _sides(gold)
    if len(one) > 2 and len(other) == 1:  # a derivation: a = b = c
        return part(one[-1], gold)
    if len(one) == 1 or len(other) == 1:
        if len(one) == 2 and not re.search(r"[A-Za-z]", re.sub(r"\\[A-Za-z]+", "", one[0])):
            return part(one[1], gold)  # a computation: 12 + 5 = 17
        return bool(name or gold_name) and part(value, gold_value)
    if len(one) != 2 or len(other) != 2:
        return part(one[-1], other[-1])
    if name and name == gold_name and part(value, gold_value):
        return True
    if _is_word(name) and _is_word(gold_name):
        return part(value, gold_value)
    try:
        return same_equation((one[0], one[1]), (other[0], other[1]))
    except Unreadable:
        return False


def _is_word(name: str) -> bool:
    return name.startswith(r"\text") or bool(re.fullmatch(r"[A-Za-z]{4,}", name))


def _same_relation(found: str, gold: str, part: Same) -> bool:
    """Inequalities that are no intervals (several variables): alike part by part, either way round."""
    sides = [split(text, _RELATION.pattern) for text in (found, gold)]
    signs = [_RELATION.findall(text) for text in (found, gold)]
    mirrored = {"<": ">", ">": "<", r"\le": r"\ge", r"\ge": r"\le", r"\ne": r"\ne"}
    if len(sides[0]) != len(sides[1]):
        return False
    for parts, relations in (
        (sides[0], signs[0]),
        (sides[0][::-1], [mirrored[sign] for sign in signs[0][::-1]]),
    ):
        if relations == signs[1] and all(part(a, b) for a, b in zip(parts, sides[1], strict=True)):
            return True
    return False


# ---- matrices and ratios


def _matrix(text: str) -> list[list[str]] | None:
    match = _MATRIX.fullmatch(text.strip())
    if match is None or match[1] in ("v", "V"):
        return None
    rows = [row for row in re.split(r"\\\\", match[2]) if row.strip()]
    return [[cell.strip() for cell in row.split("&")] for row in rows]


def _matrices(found: str, gold: str, part: Same) -> bool | None:
    one, other = _matrix(found), _matrix(gold)
    if one is None and other is None:
        return None
    if one is None or other is None:  # a vector as a tuple
        rows, text = (one or other or []), (gold if one else found)
        brackets = _brackets(text)
        flat = [cell for row in rows for cell in row]
        if brackets is None or brackets[0] == r"\{" or (len(rows) > 1 and len(rows) != len(flat)):
            return False
        pairs = list(zip(flat, brackets[1], strict=False))
        return len(flat) == len(brackets[1]) and all(part(a, b) if one else part(b, a) for a, b in pairs)
    return [len(row) for row in one] == [len(row) for row in other] and all(
        part(a, b) for row, others in zip(one, other, strict=True) for a, b in zip(row, others, strict=True)
    )


def _clocks(found: str, gold: str, _: Same) -> bool | None:
    """Times of day with a.m. or p.m., which one of the two may leave out, but for `5am`: it may be 5·a·m."""
    one, other = clock(found), clock(gold)
    if one is None or other is None or not (one[2] or other[2]):
        return None
    if not (one[2] and other[2]):
        return one[:2] == other[:2] and bool(re.search(r":|[ap]\.|\\text", found + gold, re.I))
    return one == other


def _compounds(found: str, gold: str, part: Same) -> bool | None:
    """`1 hour 30 minutes` and another time. A number without a unit is none: of hours or of minutes?"""
    mixed = [compound(text) for text in (found, gold)]
    if mixed == [None, None]:
        return None
    one, other = (each or quantity(text) for each, text in zip(mixed, (found, gold), strict=True))
    if one.unit.dimensions != other.unit.dimensions:
        return None
    return any(part(a, b) for a, b in readings(one, other))


def _ratios(found: str, gold: str, part: Same) -> bool | None:
    one, other = split(found, r":|\\colon\b"), split(gold, r":|\\colon\b")
    if len(one) == 1 and len(other) == 1:
        return None
    if not all([*one, *other]):
        return False
    one[-1], other[-1] = quantity(one[-1]).value, quantity(other[-1]).value
    if len(one) == 1 or len(other) == 1:
        ratio, text = (other, found) if len(one) == 1 else (one, gold)
        fraction = rf"\frac{{{ratio[0]}}}{{{ratio[1]}}}"
        return len(ratio) == 2 and (part(text, fraction) if len(one) == 1 else part(fraction, text))
    if any(all(part(item, "0") for item in ratio) for ratio in (one, other)):
        return False  # multiplied crosswise 0:0 is every ratio
    if any(part(item, rf"({item})+1") or not part(item, rf"({item})+0") for item in (*one, *other)):
        return False  # so are 0/0:0/0 and \infty:\infty: no number
    return len(one) == len(other) and all(
        part(rf"({one[0]})\cdot({b})", rf"({a})\cdot({other[0]})")
        for a, b in zip(one[1:], other[1:], strict=True)
    )


# ---- numbers and formulas


def _same_quantity(found: str, gold: str, tolerance: float) -> bool:
    based = [_BASE.fullmatch(text) for text in (found, gold)]
    if any(based):
        digits = [match[1] if match else text for match, text in zip(based, (found, gold), strict=True)]
        bases = [match and (match[2] or match[3]) for match in based]
        return bases[0] in (None, bases[1]) and digits[0] == digits[1]
    one, other = quantity(found), quantity(gold)
    for a, b in readings(one, other):
        a, b = _determinant(_unwrapped(a)), _determinant(_unwrapped(b))
        if _squeezed(a) == _squeezed(b):
            return True
        if is_words(a) or is_words(b):
            continue
        try:
            if same_formula(a, b, tolerance):
                return True
        except Unreadable:
            continue
    return False


def _determinant(text: str) -> str:
    match = _MATRIX.fullmatch(text)
    if match is None or match[1] not in ("v", "V"):
        return text
    rows = [row.split("&") for row in re.split(r"\\\\", match[2]) if row.strip()]
    if [len(row) for row in rows] != [2, 2]:
        return text
    (a, b), (c, d) = rows
    return rf"({a})\cdot({d})-({b})\cdot({c})"
