"""Verdicts, the hard deadline, and the shaped reward."""

import random
import time

import pytest

from zgcm.config.rl import LengthPenalty
from zgcm.errors import ZgcmError
from zgcm.rl.rewards.math import candidate, decided_without_parsing, equal
from zgcm.rl.rewards.pool import verifier_pool
from zgcm.rl.rewards.score import Finished, score_math
from zgcm.rl.rewards.shaping import needs_verdict, shaped


@pytest.mark.parametrize(
    ("answer", "gold", "verdict"),
    [
        (r"The answer is \boxed{85}", "85", True),
        (r"first \boxed{4}, no: \boxed{3}", "3", True),
        (r"first \boxed{3}, no: \boxed{4}", "3", False),
        (r"\boxed{0.5}", r"\frac{1}{2}", True),
        (r"\boxed{2\sqrt{2}}", r"\sqrt{8}", True),
        (r"\boxed{(x+1)^2}", "x^2+2x+1", True),
        (r"\boxed{\{3,2,1\}}", r"\{1,2,3\}", True),
        (r"\boxed{(2,1)}", "(1,2)", False),
        ("The final answer is 12.", "12", True),
        # rounding to six decimals makes these equal for math-verify
        (r"\boxed{2^{-98}}", "2^{-99}", False),
        (r"\boxed{1/2^98}", "1/2^99", False),
        (r"\boxed{1+1/e}", "1-1/e", False),
        (r"\boxed{}", "1", False),
        (r"\boxed{\frac{}", "1", False),
    ],
)
def test_equal(answer: str, gold: str, verdict: bool) -> None:
    assert equal(candidate(answer), gold) is verdict


def test_the_shortcut_never_changes_a_verdict() -> None:
    rng = random.Random(0)
    numbers = [0, -1, 7, 10**17] + [rng.randint(-(10**6), 10**6) for _ in range(12)]
    for gold in numbers:
        for found in (gold, gold + 1, -gold):
            boxed = candidate(rf"so \boxed{{{found}}}")
            quick = decided_without_parsing(boxed, str(gold))
            assert quick is not None and quick == equal(boxed, str(gold))
    for answer, gold in (
        (r"\boxed{085}", "85"),
        (r"\boxed{85.0}", "85"),
        ("85", "85"),
        (r"\boxed{85}", "85%"),
    ):
        assert decided_without_parsing(candidate(answer), gold) is None


def test_hostile_pairs_die_at_the_deadline_and_block_nobody() -> None:
    hostile = [(r"\boxed{9^{9^{9^{9}}}}", r"2^{2^{2^{2^{2^{2}}}}}"), (r"\boxed{10^{10^{10}}}", "1")]
    harmless = [(r"\boxed{\frac{3}{6}}", "0.5")] * 6
    with verifier_pool(2, 2.0) as pool:
        pool.judge(harmless[:2])  # both processes up, so that starting is not part of the measurement
        begun = time.monotonic()
        verdicts = pool.judge([hostile[0], *harmless[:3], hostile[1], *harmless[3:]])
        seconds = time.monotonic() - begun
    assert [verdict.equal for verdict in verdicts] == [False, True, True, True, False, True, True, True]
    assert {verdicts[0].failure, verdicts[4].failure} <= {"timeout", "died"} | {verdicts[4].failure}
    assert verdicts[0].failure
    assert seconds < 60


def test_a_pair_that_breaks_the_parser_is_wrong_not_fatal() -> None:
    with verifier_pool(1, 5.0) as pool:
        deep, normal = pool.judge(
            [(r"\boxed{" + "(" * 3000 + "1" + ")" * 3000 + "}", "1"), (r"\boxed{1/2}", "0.5")]
        )
    assert not deep.equal
    assert normal.equal


PENALTY = LengthPenalty(start=16384, end=65536, max=0.05)


@pytest.mark.parametrize(
    ("raw", "tokens", "reward"),
    [(0, 65536, 0.0), (1, 0, 1.0), (1, 16384, 1.0), (1, 40960, 0.975), (1, 65536, 0.95), (1, 99999, 0.95)],
)
def test_shaped(raw: float, tokens: int, reward: float) -> None:
    assert shaped(raw, tokens, PENALTY) == pytest.approx(reward, abs=1e-15)
    assert shaped(raw, tokens, None) == raw


def test_broken_rollouts_are_no_wrong_answers() -> None:
    assert needs_verdict("stop", 8, 8) and not needs_verdict("length", 8, 8)
    for reason, tokens in (("abort", 1), ("error", 1), ("stop", 9)):
        with pytest.raises(ZgcmError):
            needs_verdict(reason, tokens, 8)
    with pytest.raises(ZgcmError):
        shaped(0.5, 1, None)


def test_score_judges_each_distinct_pair_once_and_takes_any_label() -> None:
    def finished(text: str, reason: str = "stop") -> Finished:
        return Finished(text, 5, reason, ["7", r"\frac{1}{2}"])

    responses = [
        finished(r"x</think>\boxed{7}<|endoftext|>"),
        finished(r"y</think>\boxed{0.5}<|endoftext|>"),
        finished(r"z</think>\boxed{0.5}<|endoftext|>"),
        finished(r"</think>\boxed{8}"),
        finished(r"\boxed{7}"),  # never closed its thinking
        finished(r"</think>\boxed{7}", "length"),
    ]
    with verifier_pool(1, 8.0) as pool:
        scores = score_math(responses, pool, max_new_tokens=8, special_tokens=["<|endoftext|>"])
    assert scores.raw == [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    assert scores.judged == 4  # 7 and 8 against the fraction, 0.5 against each label
    assert not scores.failures
