r"""Is an answer mathematically equal to the gold label? math-verify decides, with two guards of ours.

What is compared is the content of the last `\boxed{}`; an answer without one is searched by math-verify as a
whole. Runs in a killable process (zgcm.rl.rewards.worker): sympy may take for ever on `9^{9^{9^{9}}}`, and
math-verify's own time limits work on a main thread only.
"""

import logging
import re
from typing import Any

from zgcm.rl.completion import last_boxed

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_RELATIVE_TOLERANCE = 1e-5
"""math-verify rounds to 6 decimals, so 1/2^99 equals 1/2^98 for it. Numbers must agree relatively, too."""


def candidate(answer: str) -> str:
    r"""The part of a visible answer that is compared: its last `\boxed{}`, or all of it."""
    boxed = last_boxed(answer)
    return answer if boxed is None else rf"\boxed{{{boxed}}}"


def decided_without_parsing(candidate: str, gold: str) -> bool | None:
    r"""Equality of two plainly written integers, `\boxed{85}` and `85`; None when a parser must decide.

    Never differs from `equal` (a test compares them); it saves 15 to 20 ms a pair.
    """
    boxed = last_boxed(candidate)
    if boxed is None or not _INTEGER.fullmatch(boxed) or not _INTEGER.fullmatch(gold.strip()):
        return None
    return boxed == gold.strip()


def equal(candidate: str, gold: str) -> bool:
    """math-verify's verdict (gold first: it is not symmetric), refused where the numbers differ relatively.

    Has no time limit. A text that cannot be parsed is not equal to anything.
    """
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

    logging.getLogger("math_verify").setLevel(logging.CRITICAL)  # it warns that it has no time limit
    extraction = [LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig()]

    def parsed(text: str) -> list[Any]:
        return parse(text, extraction_config=extraction, parsing_timeout=None)

    gold_forms = parsed(f"${gold}$")
    forms = parsed(candidate)
    if not verify(gold_forms, forms, float_rounding=6, timeout_seconds=None):
        return False
    return _numbers_agree(gold_forms[0], forms[0])


def _numbers_agree(gold: Any, found: Any) -> bool:
    from sympy import Basic

    if not all(isinstance(item, Basic) and item.is_number and item.is_real for item in (gold, found)):
        return True
    gold_value, value = gold.evalf(30), found.evalf(30)
    return bool(abs(gold_value - value) <= _RELATIVE_TOLERANCE * max(abs(gold_value), abs(value)))
