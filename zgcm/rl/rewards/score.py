"""Raw correctness of a batch of responses: each distinct (answer, label) pair is judged once."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from zgcm.rl.completion import visible_answer
from zgcm.rl.rewards.math import candidate, decided_without_parsing
from zgcm.rl.rewards.pool import Verdict, VerifierPool
from zgcm.rl.rewards.shaping import needs_verdict


@dataclass(frozen=True)
class Finished:
    """What a reward sees of a response. `text` is decoded with special tokens."""

    text: str
    tokens: int
    finish_reason: str
    answers: Sequence[str]


@dataclass
class Scores:
    raw: list[float]
    """0.0 or 1.0 a response."""
    failures: Counter[str] = field(default_factory=Counter)
    """Pairs that were not judged (timeout, died, exception's name); they count as wrong."""
    judged: int = 0
    """Pairs that went to a verifier process."""


def score_math(
    responses: Sequence[Finished], pool: VerifierPool, *, max_new_tokens: int, special_tokens: Sequence[str]
) -> Scores:
    """1.0 when the response finished and its visible answer equals any of its labels, else 0.0."""
    found: list[str | None] = []
    for response in responses:
        answer = None
        if needs_verdict(response.finish_reason, response.tokens, max_new_tokens):
            answer = visible_answer(response.text, special_tokens)
        found.append(candidate(answer) if answer is not None else None)

    verdicts, judged = judge(found, [response.answers for response in responses], pool)
    raw = [
        float(answer is not None and any(verdicts[answer, label].equal for label in response.answers))
        for answer, response in zip(found, responses, strict=True)
    ]
    failures = Counter(verdict.failure.split(":")[0] for verdict in verdicts.values() if verdict.failure)
    return Scores(raw, failures, judged)


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
