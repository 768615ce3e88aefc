"""Instruction following: the share of a prompt's constraints that the visible answer satisfies.

The constraints are IFEval's; zgcm.rl.rewards.registry has their checkers. A constraint that it does not know,
or one without its arguments, is found by `check_spec` before training; a checker that raises later is an
infrastructure error, never a wrong answer.
"""

from typing import Any

from zgcm.errors import ZgcmError
from zgcm.rl.rewards.registry import Checkout, registry

PROBE = "A short answer, in two sentences. It ends here."


def check_spec(where: str, spec: Any, checkout: Checkout | None = None) -> None:
    """Raises ZgcmError unless `ifeval_spec` is a non-empty list of {instruction_id, kwargs} that the registry
    can check: every id known, no argument unknown, none missing (the registry would draw one at random)."""
    if not isinstance(spec, list) or not spec:
        raise ZgcmError("`ifeval_spec` must be a non-empty list", where=where, found=repr(spec)[:80])
    for constraint in spec:
        if not isinstance(constraint, dict) or not isinstance(constraint.get("instruction_id"), str):
            raise ZgcmError("A constraint needs `instruction_id`", where=where, found=repr(constraint)[:80])
        name = constraint["instruction_id"]
        if not isinstance(constraint.get("kwargs"), dict):
            raise ZgcmError(
                "A constraint needs `kwargs`, an object", where=where, found=repr(constraint)[:80]
            )
        known = registry(checkout)
        if name not in known:
            raise ZgcmError(
                "Unknown instruction", where=where, found=repr(name), expected=", ".join(sorted(known))
            )
        try:
            checker, drawn = _checker(constraint, checkout)
            checker.check_following(PROBE)
        except Exception as error:
            raise ZgcmError(
                f"The checker {name} does not accept its arguments",
                where=where, found=f"{constraint['kwargs']}: {type(error).__name__}: {error}"[:300],
                hint="correct kwargs of that constraint",
            ) from error  # fmt: skip
        for argument, given in constraint["kwargs"].items():
            taken = (checker.get_instruction_args() or {}).get(argument)
            if isinstance(taken, list) and not isinstance(given, list):  # it would take a string's letters
                raise ZgcmError(f"{argument} of {name} is a list", where=where, found=repr(given)[:80])
        if drawn:
            raise ZgcmError(
                f"{name} lacks arguments, and would draw them at random",
                where=where,
                found=f"no {', '.join(drawn)}",
            )


def satisfied(answer: str | None, spec: list[dict[str, Any]], checkout: Checkout | None = None) -> list[bool]:
    """A verdict a constraint; all False without an answer. Raises ZgcmError when a checker does."""
    if answer is None:
        return [False] * len(spec)
    verdicts = []
    for constraint in spec:
        try:
            checker, _ = _checker(constraint, checkout)
            verdicts.append(bool(checker.check_following(answer)))
        except (
            RecursionError
        ):  # `[` a thousand times is no JSON. The preflight's answer was no trouble: this is
            verdicts.append(False)  # the answer's own doing, and no model may stop its training by it
        except Exception as error:
            raise ZgcmError(
                f"The checker {constraint.get('instruction_id')} failed; the answer counts as not judged",
                found=f"{type(error).__name__}: {error} on {answer[:60]!r}",
                hint="correct the prompt's ifeval_spec, or leave the prompt out",
            ) from error
    return verdicts


def fraction(verdicts: list[bool]) -> float:
    """Satisfied over all; the reward."""
    return sum(verdicts) / len(verdicts)


def _checker(constraint: dict[str, Any], checkout: Checkout | None) -> tuple[Any, list[str]]:
    """(checker with its arguments, names of those that it had to make up)."""
    given = {name: value for name, value in constraint["kwargs"].items() if value is not None}
    checker = registry(checkout)[constraint["instruction_id"]](constraint["instruction_id"])
    checker.build_description(**given)
    arguments = checker.get_instruction_args() or {}
    return checker, sorted(
        name for name, value in arguments.items() if value is not None and name not in given
    )
