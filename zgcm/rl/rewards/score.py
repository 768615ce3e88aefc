"""Raw rewards of answers, one function a domain; each distinct question to a judge is asked once.

`answers` are visible answers, None where a response has none or was cut off: those earn 0 and are not judged.
"""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from zgcm.config.rl import Sandbox
from zgcm.errors import ZgcmError
from zgcm.rl.completion import python_program, visible_answer
from zgcm.rl.prompts import Prompt
from zgcm.rl.rewards.instruction import fraction
from zgcm.rl.rewards.math import candidate, decided_without_parsing
from zgcm.rl.rewards.pool import Checked, Verdict, VerifierPool
from zgcm.rl.rewards.shaping import needs_verdict
from zgcm.rl.sandbox.request import BODY_BYTES, MOST_TESTS, PROGRAM_BYTES

NOT_JUDGED = ("timeout", "died")
"""What may happen to a verifier process because of the answer. Anything else that a checker of instructions
does is the checker's fault."""
Answers = Sequence[str | None]
Verify = Callable[[dict[str, Any]], dict[str, Any]]
"""The service's `/v1/verify`: the fields of a request to those of its answer. Raises when it has none."""


@dataclass(frozen=True)
class Finished:
    """What a reward sees of a response. `text` is decoded with special tokens."""

    text: str
    tokens: int
    finish_reason: str
    prompt: Prompt


@dataclass
class Scores:
    raw: list[float]
    """In [0, 1], a response."""
    not_judged: list[str]
    """Why a response earned 0 without a verdict: timeout, died, program_too_long, an exception's name; empty:
    it has its verdict."""


def answers_of(
    responses: Sequence[Finished], max_new_tokens: int, special_tokens: Sequence[str]
) -> list[str | None]:
    """The visible answer of each response that finished. Raises ZgcmError for a broken rollout."""
    return [
        visible_answer(response.text, special_tokens)
        if needs_verdict(response.finish_reason, response.tokens, max_new_tokens)
        else None
        for response in responses
    ]


def score_math(answers: Answers, prompts: Sequence[Prompt], pool: VerifierPool) -> Scores:
    """1.0 when the answer equals any of its labels, else 0.0."""
    found = [None if answer is None else candidate(answer) for answer in answers]
    verdicts, _ = judge(found, [prompt.answers for prompt in prompts], pool)
    scores = Scores([], [])
    for answer, prompt in zip(found, prompts, strict=True):
        mine = [] if answer is None else [verdicts[answer, label] for label in prompt.answers]
        right = any(verdict.equal for verdict in mine)
        failed = [verdict.failure.split(":")[0] for verdict in mine if verdict.failure]
        scores.raw.append(float(right))
        scores.not_judged.append(failed[0] if failed and not right else "")
    return scores


def judge(
    found: Sequence[str | None], labels: Sequence[Sequence[str]], pool: VerifierPool
) -> tuple[dict[tuple[str, str], Verdict], int]:
    """The verdict of each distinct (answer, label), and how many of them needed a verifier process."""
    quick = {
        (answer, label): decided_without_parsing(answer, label)
        for answer, several in zip(found, labels, strict=True)
        if answer is not None
        for label in several
    }
    hard = [pair for pair, equal in quick.items() if equal is None]
    verdicts = {pair: Verdict(equal) for pair, equal in quick.items() if equal is not None}
    return verdicts | dict(zip(hard, pool.judge(hard), strict=True)), len(hard)


def score_instructions(answers: Answers, prompts: Sequence[Prompt], pool: VerifierPool) -> Scores:
    """The share of the prompt's constraints that the answer satisfies. Raises ZgcmError when a checker does:
    that is no wrong answer."""
    asked = {
        (answer, json.dumps(prompt.ifeval_spec)): prompt
        for answer, prompt in zip(answers, prompts, strict=True)
        if answer is not None
    }
    questions = [(key[0], prompt.ifeval_spec, prompt.named()) for key, prompt in asked.items()]
    found = dict(zip(asked, check(questions, pool), strict=True))
    scores = Scores([], [])
    for answer, prompt in zip(answers, prompts, strict=True):
        mine = Checked([]) if answer is None else found[answer, json.dumps(prompt.ifeval_spec)]
        scores.raw.append(fraction(mine.satisfied) if mine.satisfied else 0.0)
        scores.not_judged.append(mine.failure)
    return scores


def check(asked: Sequence[tuple[str, list[dict[str, Any]], str]], pool: VerifierPool) -> list[Checked]:
    """Which constraints each (answer, ifeval_spec, name of its prompt) satisfies. Raises ZgcmError when a
    checker does."""
    found = pool.check([(answer, spec) for answer, spec, _ in asked])
    for (_, _, where), checked in zip(asked, found, strict=True):
        if checked.failure and checked.failure not in NOT_JUDGED:
            raise ZgcmError(
                "A checker of instructions failed", where=where, found=checked.failure,
                hint="leave the prompt out, or correct its ifeval_spec; the answer was not scored 0",
            )  # fmt: skip
    return found


def score_code(
    answers: Answers,
    prompts: Sequence[Prompt],
    verify: Verify,
    settings: Sandbox,
    at_a_time: int,
    *,
    evaluating: bool,
) -> Scores:
    """Training: the share of passed tests, of at most `max_tests`. Evaluation: 1.0 when all of at most 64
    pass, else 0.0 (as published). Raises what `verify` does."""
    keys: list[str | None] = []
    too_long = []
    asked: dict[str, dict[str, Any]] = {}
    for answer, prompt in zip(answers, prompts, strict=True):
        program = None if answer is None else python_program(answer)
        key = None
        if program is not None:
            body = _request(program, prompt, settings, evaluating=evaluating)
            key = json.dumps(body, ensure_ascii=False)
            if len(program.encode()) <= PROGRAM_BYTES and len(key.encode()) <= BODY_BYTES:
                asked[key] = body
            else:  # the service's limits are published: a longer program is its author's fault
                key = None
        keys.append(key)
        too_long.append("program_too_long" if program is not None and key is None else "")
    with ThreadPoolExecutor(at_a_time, thread_name_prefix="code") as threads:
        scores = list(threads.map(lambda body: float(verify(body)["score"]), asked.values()))
    found = dict(zip(asked, scores, strict=True))
    raw = [0.0 if key is None else found[key] for key in keys]
    return Scores([float(value == 1.0) for value in raw] if evaluating else raw, too_long)


def _request(program: str, prompt: Prompt, settings: Sandbox, *, evaluating: bool) -> dict[str, Any]:
    return {
        "program": program,
        "asset_hash": prompt.code_asset_hash,
        "task_type": prompt.task_type,
        "selection_seed": prompt.prompt_hash or prompt.code_asset_hash,
        "max_tests": MOST_TESTS if evaluating else settings.max_tests,
        "max_execution_time": settings.test_timeout,
    }
