"""How an attempt ended decides whether another may follow."""

import signal

import pytest

from zgcm.stopping import how_far
from zgcm.train import attempts, stopped
from zgcm.train.launch import Outcome
from zgcm.train.spikes import Spike

FAILED, PREEMPTED, ON_TIME = Outcome(1, 0, ["the end"]), Outcome(1, signal.SIGTERM, []), Outcome(0, 0, [])


def attempt(run, outcome, start=0, reached=0, spike=None):
    number = attempts.begin(run, start, [], "0123456789ab")
    attempts.end(run, number, reached, outcome, spike)
    return attempts.judge(run, "one", number, 8, outcome)


def test_two_attempts_without_progress_stop_the_run_with_the_reason(tmp_path):
    attempt(tmp_path, FAILED)
    stopped.check(tmp_path)
    attempt(tmp_path, FAILED)
    with pytest.raises(Exception, match=r"(?s)2 attempts in a row made no new checkpoint\. .*the end"):
        stopped.check(tmp_path)


@pytest.mark.parametrize(
    "between",
    [
        lambda run: attempt(run, FAILED, reached=3),
        lambda run: attempts.begin(run, 0, [], "0123456789ab"),  # killed together with its launcher
        lambda run: attempt(run, PREEMPTED),
        lambda run: attempt(run, FAILED, spike=Spike(5, 7, "loss")),
    ],
    ids=["progress", "killed", "preempted", "spike"],
)
def test_these_do_not_count(tmp_path, between):
    attempt(tmp_path, FAILED)
    between(tmp_path)
    stopped.check(tmp_path)


@pytest.mark.parametrize(
    ("outcome", "reached", "told", "code"),
    [
        (PREEMPTED, 0, "at your request: one had saved no step yet; the same command begins it anew", 143),
        (PREEMPTED, 3, "at your request: one saved step 3 of 8; the same command continues", 143),
        (ON_TIME, 3, "on request; one is saved at step 3 of 8", 1),
    ],
)
def test_a_stop_on_request_says_so(tmp_path, outcome, reached, told, code):
    error = attempt(tmp_path, outcome, reached=reached)
    assert (error.what, getattr(error, "code", 1)) == (f"Stopped {told}", code)


def test_a_stage_that_continues_another_counts_its_own_steps():
    assert how_far("two", 8, 14, 8) == "two had saved no step yet; the same command begins it anew"
    assert how_far("two", 11, 14, 8).startswith("two saved step 3 of 6 (iteration 11 of 14); ")


def test_an_end_in_good_order_without_a_checkpoint_is_a_failure(tmp_path):
    assert "ended at step 0 of 8" in attempt(tmp_path, ON_TIME).what
