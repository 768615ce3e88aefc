r"""Are two formulas the same number or function? math-verify's parser reads them whole; numbers decide.

Its verdicts alone are not enough for a reward. It rounds to 6 decimals (1/2^99 equals 1/2^98 for it), takes
some pairs of different lines for equal, and reads a number out of the middle of a formula that it cannot
parse (`4\sqrt(2)` is 4). Here a text is parsed whole or not at all, and both sides must have the same value:
exactly where both are rational, in 50 digits elsewhere, and at several points where they hold variables.
"""

import logging
import re
from typing import Any

from zgcm.rl.rewards.notation import split

DIGITS = 60
AGREEMENT = 50
"""Decimal digits in which two values must agree, of DIGITS that are computed."""
MAX_CHARACTERS = 500
_INTEGERS = frozenset("nkmNpq")
_POINTS = (3, 7, 12, 5, 29, 4)
_NO_FORMULA = re.compile(
    r"(?<!_)\d\s+\d|\\text|[\u3000-\u9fff?@#&\"]|\\begin|\d\.\d*\.|\\(?:ne|le|ge|in)\b|[<>]"
)


class Unreadable(ValueError):
    """The text is no formula."""


def parsed(text: str) -> Any:
    """What math-verify's parser makes of a whole text, decimals exact. Raises Unreadable."""
    import sympy
    from latex2sympy2_extended import latex2sympy
    from latex2sympy2_extended.latex2sympy2 import ConversionConfig

    if not text or len(text) > MAX_CHARACTERS or _NO_FORMULA.search(text):
        raise Unreadable(text[:80])
    text = re.sub(r"(\d+(?:\.\d+)?)\s*\^\{\\circ\}", r"(\\frac{\1\\cdot\\pi}{180})", text)
    try:
        result = latex2sympy(
            text, normalization_config=None, conversion_config=ConversionConfig(lowercase_symbols=False)
        )
    except Exception as error:  # the parser raises Exception itself, and what its conversions run into
        raise Unreadable(text[:80]) from error
    if not isinstance(result, sympy.Basic):
        raise Unreadable(text[:80])
    exact = {number: sympy.Rational(str(number)) for number in result.atoms(sympy.Float)}
    return result.xreplace(exact)


def formula(text: str) -> Any:
    """A sympy expression, sums and integrals evaluated, `i` imaginary. Raises Unreadable."""
    import sympy

    expression = parsed(text) if len(split(text, "=")) == 1 else None
    if not isinstance(expression, sympy.Expr):
        raise Unreadable(text[:80])
    if sympy.Symbol("i") in expression.free_symbols:
        expression = expression.xreplace({sympy.Symbol("i"): sympy.I})
    evaluated = expression.doit()
    if evaluated.has(sympy.nan, sympy.zoo):  # 0/0, 1/0: sympy has one equal to itself times anything
        raise Unreadable(text[:80])
    return evaluated


def verified(found: str, gold: str) -> bool:
    """math-verify's verdict in either direction (it is not symmetric), for what has no one value: sets with a
    hole, several inequalities. Numbers and formulas are refused: same_formula decides those."""
    import sympy
    from math_verify import verify

    try:
        one, other = parsed(found), parsed(gold)
    except Unreadable:
        return False
    if any(isinstance(side, (sympy.Expr, sympy.Eq)) for side in (one, other)):
        return False
    logging.getLogger("math_verify").setLevel(logging.CRITICAL)  # it warns that it has no time limit
    return any(verify(a, b, timeout_seconds=None) for a, b in ((other, one), (one, other)))


def same_formula(found: str, gold: str, tolerance: float = 0.0) -> bool:
    """Whether two spelled formulas are equal. A relative `tolerance` above 0 forgives rounding: it holds only
    where one of the two is written as a decimal."""
    one, other = formula(found), formula(gold)
    if one == other:
        return True
    if one.is_Rational and other.is_Rational:
        return bool(one == other) or _near(one, other, found, gold, tolerance)
    symbols = sorted(one.free_symbols | other.free_symbols, key=str)
    if not symbols:
        return _agree(one, other) or _near(one, other, found, gold, tolerance)
    verdicts = [_at(one, other, point) for point in points(symbols)]
    decided = [verdict for verdict in verdicts if verdict is not None]
    return len(decided) >= 2 and all(decided)


def points(symbols: list[Any]) -> list[dict[Any, Any]]:
    """Values for the variables, distinct in each point: whole for n, k, m, else rational of both signs."""
    import sympy

    chosen = []
    for index, base in enumerate(_POINTS):
        point = {}
        for place, symbol in enumerate(symbols):
            whole = base + 2 * place * place + 3 * place
            sign = -1 if (index + place) % 3 == 2 else 1
            integer = str(symbol)[0] in _INTEGERS
            point[symbol] = sympy.Integer(whole) if integer else sympy.Rational(sign * (7 * whole + 3), 11)
        chosen.append(point)
    return chosen


def value(expression: Any, point: dict[Any, Any]) -> Any | None:
    """The number at a point, to DIGITS digits; None where it has none (a pole)."""
    number = expression.subs(point).doit() if point else expression
    if not number.is_Rational:
        number = number.evalf(DIGITS)
    if not number.is_number or not number.is_finite or number.free_symbols:
        return None
    return number


def _at(one: Any, other: Any, point: dict[Any, Any]) -> bool | None:
    first, second = value(one, point), value(other, point)
    if first is None or second is None or (first.is_real is not True) != (second.is_real is not True):
        return None  # a pole, or outside the domain of one of them
    return _agree(first, second)


def _agree(one: Any, other: Any) -> bool:
    import sympy

    if one.is_Rational and other.is_Rational:
        return bool(one == other)
    if not (one.is_finite and other.is_finite):
        return bool(one == other)
    difference = one - other
    if difference == 0:
        return True
    one, other = one.evalf(DIGITS), other.evalf(DIGITS)
    size = max(abs(one), abs(other))
    if not size.is_number or size.free_symbols:
        return False
    return bool(abs(one - other) <= sympy.Float(10, DIGITS) ** -AGREEMENT * size)


def _near(one: Any, other: Any, found: str, gold: str, tolerance: float) -> bool:
    if tolerance <= 0 or not re.search(r"\d\.\d", found + " " + gold):
        return False
    if not (one.is_real and other.is_real and one.is_finite and other.is_finite):
        return False
    return bool(abs((one - other).evalf(DIGITS)) <= tolerance * max(abs(one.evalf()), abs(other.evalf())))


def same_equation(found: tuple[str, str], gold: tuple[str, str]) -> bool:
    """Whether two equations, each (left, right), are multiples of each other by a constant other than 0."""
    import sympy

    one, other = (formula(left) - formula(right) for left, right in (found, gold))
    symbols = sorted(one.free_symbols | other.free_symbols, key=str)
    if not symbols or one.free_symbols != other.free_symbols:
        return False
    ratios = []
    for point in points(symbols):
        first, second = value(one, point), value(other, point)
        if first is None or second is None or second == 0:
            continue
        ratios.append(first / second)
    zero = sympy.Integer(0)
    return len(ratios) >= 3 and ratios[0] != zero and all(_agree(ratios[0], ratio) for ratio in ratios[1:])
