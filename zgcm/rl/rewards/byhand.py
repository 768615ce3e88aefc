"""Scores a file of completions: `zgcm reward`. The same rewards as in training, each with its reason."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import batched
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zgcm.errors import ZgcmError
from zgcm.io import not_the_input
from zgcm.records import open_records
from zgcm.rl.completion import THINK_END, visible_answer
from zgcm.rl.prompts import check_row, read_rows
from zgcm.rl.rewards.pool import VerifierPool
from zgcm.rl.rewards.registry import Checkout

if TYPE_CHECKING:
    from zgcm.rl.sandbox.verdict import Sandbox

BATCH = 64
Scored = dict[str, Any]
"""sample_id, reward in [0, 1], answer (what was compared; None without one), reason."""
Scorer = Callable[[Sequence[dict[str, Any]]], list[Scored]]


def completions(path: Path, domain: str, checkout: Checkout | None = None) -> Iterator[dict[str, Any]]:
    """Rows with a prompt's fields and `completion`. Raises ZgcmError naming file and line."""
    for where, row in read_rows(path):
        check_row(where, row, domain, checkout)
        if not isinstance(row.get("completion"), str):
            raise ZgcmError(
                "A row needs `completion`, the model's whole output", where=where,
                found=repr(row["completion"])[:80] if "completion" in row else "no completion",
                expected="a string, with its thinking",
            )  # fmt: skip
        yield row


def score_file(
    source: Path,
    output: Path,
    domain: str,
    scorer: Scorer,
    say: Callable[[str], None],
    checkout: Checkout | None = None,
) -> dict[str, Any]:
    """Write one JSON line a row, in their order. Returns rows, mean reward and how often each reason came."""
    not_the_input(output, source)
    rows = list(completions(source, domain, checkout))  # every row is checked before the first is judged
    if not rows:
        raise ZgcmError("No rows", where=str(source), hint="name a file that holds some")
    rewards: list[float] = []
    reasons: Counter[str] = Counter()
    with open_records(output) as write:
        for batch in batched(rows, BATCH):
            for scored in scorer(batch):
                write(scored)
                rewards.append(scored["reward"])
                reasons[scored["reason"].split(":")[0]] += 1
            say(f"{len(rewards)}/{len(rows)} rows, mean reward {sum(rewards) / len(rewards):.3f}")
    return {
        "rows": len(rows),
        "mean_reward": sum(rewards) / len(rewards),
        "reasons": dict(sorted(reasons.items())),
        "output": str(output),
    }


def math_scorer(pool: VerifierPool, special_tokens: Iterable[str]) -> Scorer:
    """1 when the answer equals any label, 0 otherwise."""
    from zgcm.rl.rewards.math import candidate
    from zgcm.rl.rewards.score import judge

    def score(rows: Sequence[dict[str, Any]]) -> list[Scored]:
        answers = [visible_answer(row["completion"], special_tokens) for row in rows]
        found = [None if answer is None else candidate(answer) for answer in answers]
        labels = [[str(label) for label in row["answers"]] for row in rows]
        verdicts, _ = judge(found, labels, pool)
        scored = []
        for answer, row, several in zip(found, rows, labels, strict=True):
            mine = {label: verdicts[answer, label] for label in several} if answer is not None else {}
            right = [label for label, verdict in mine.items() if verdict.equal]
            failed = [verdict.failure for verdict in mine.values() if verdict.failure]
            reason = (
                _missing(row["completion"]) if answer is None
                else f"equal: {right[0]}" if right
                else f"not judged: {failed[0]}" if failed
                else "not equal"
            )  # fmt: skip
            scored.append(_result(row, float(bool(right)), answer, reason))
        return scored

    return score


def instruction_scorer(pool: VerifierPool, special_tokens: Iterable[str]) -> Scorer:
    """The share of satisfied constraints. Raises ZgcmError when a checker does."""
    from zgcm.rl.rewards.instruction import fraction
    from zgcm.rl.rewards.score import check

    def score(rows: Sequence[dict[str, Any]]) -> list[Scored]:
        answers = [visible_answer(row["completion"], special_tokens) for row in rows]
        asked = [
            (answer, row["ifeval_spec"], f"sample_id {row['sample_id']}")
            for answer, row in zip(answers, rows, strict=True)
            if answer is not None
        ]
        found = iter(check(asked, pool))
        scored = []
        for answer, row in zip(answers, rows, strict=True):
            if answer is None:
                scored.append(_result(row, 0.0, None, _missing(row["completion"])))
                continue
            checked = next(found)
            names = [constraint["instruction_id"] for constraint in row["ifeval_spec"]]
            unmet = [name for name, met in zip(names, checked.satisfied, strict=False) if not met]
            reason = (
                f"not judged: {checked.failure}" if checked.failure
                else f"not satisfied: {', '.join(unmet)}" if unmet
                else "all satisfied"
            )  # fmt: skip
            reward = fraction(checked.satisfied) if checked.satisfied else 0.0
            scored.append(_result(row, reward, answer, reason))
        return scored

    return score


def code_scorer(
    judge: "Sandbox", root: Path, most: int, seconds: float, special_tokens: Iterable[str]
) -> Scorer:
    """The share of passed tests, of at most `most` chosen by the row's `prompt_hash` or its tests' hash."""
    from zgcm.rl.completion import python_program
    from zgcm.rl.sandbox import assets

    def one(row: dict[str, Any]) -> Scored:
        answer = visible_answer(row["completion"], special_tokens)
        program = python_program(answer) if answer is not None else None
        if answer is None or program is None:
            return _result(row, 0.0, None, "no program" if answer else _missing(row["completion"]))
        name, task = row["code_asset_hash"], row["task_type"]
        tests = assets.picked(root, name, task, str(row.get("prompt_hash") or name), most)
        outcomes = judge.score(program, tests, task, seconds)
        failed = [outcome.reason for outcome in outcomes if not outcome.passed]
        reason = f"not passed: {len(failed)} of {len(outcomes)}, {failed[0]}" if failed else "all passed"
        return _result(row, (len(outcomes) - len(failed)) / len(outcomes), program, reason)

    def score(rows: Sequence[dict[str, Any]]) -> list[Scored]:
        with ThreadPoolExecutor(BATCH) as threads:
            return list(threads.map(one, rows))

    return score


def _missing(completion: str) -> str:
    """Why a completion has no visible answer."""
    return "empty answer" if THINK_END in completion else f"no {THINK_END}"


def _result(row: dict[str, Any], reward: float, answer: str | None, reason: str) -> Scored:
    return {"sample_id": row["sample_id"], "reward": reward, "answer": answer, "reason": reason}
