"""What a spike is, what is decided on it, and that a restart changes neither."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from zgcm.config.stages import Spikes
from zgcm.train import spikes

CALM = [2.0 + 0.01 * math.sin(i) for i in range(200)]


def records(losses, grad_norms=None):
    norms = grad_norms or [1.0 + 0.1 * math.cos(i) for i in range(len(losses))]
    return [
        {"iteration": i, "loss": loss, "grad_norm": norm}
        for i, (loss, norm) in enumerate(zip(losses, norms, strict=True), start=1)
    ]


def seen(detector, rows):
    return [spike for row in rows if (spike := detector.see(row))]


def test_calm_and_falling_losses_are_no_spike():
    falling = [10 * 0.97**i + 0.01 * math.sin(i) for i in range(300)]
    assert seen(spikes.Detector(Spikes()), records(CALM)) == []
    assert seen(spikes.Detector(Spikes()), records(falling)) == []


def test_one_outlier_is_none_three_in_a_row_are_one():
    outlier = [*CALM, 9.0, *CALM]
    assert seen(spikes.Detector(Spikes()), records(outlier)) == []
    spike = seen(spikes.Detector(Spikes()), records([*CALM, 9.0, 9.5, 9.0, *CALM]))[0]
    assert (spike.first, spike.last) == (201, 203)
    assert spike.what.startswith("loss 9 > 7")  # the two before it are in the window already


def test_the_gradient_norm_counts_alone():
    norms = [1 + 0.1 * math.cos(i) for i in range(200)] + [50.0]
    spike = seen(spikes.Detector(Spikes(patience=1)), records([*CALM, 2.0], norms))[0]
    assert (spike.first, spike.last) == (201, 201)
    assert spike.what.startswith("grad_norm 50 >")


def test_half_a_window_must_be_known():
    for known, expected in ((63, 0), (64, 1)):
        rows = records([*CALM[:known], 9.0])
        assert len(seen(spikes.Detector(Spikes(patience=1)), rows)) == expected


@given(
    st.lists(st.sampled_from([2.0, 2.01, 1.99, 3.0, 8.0]), min_size=5, max_size=60),
    st.integers(0, 60),
    st.integers(1, 3),
)
def test_a_restart_sees_what_an_uninterrupted_run_sees(losses, cut, patience):
    settings = Spikes(window=12, deviations=1.5, patience=patience)
    rows = records(losses, [1.0] * len(losses))
    whole = spikes.Detector(settings)
    found = [whole.see(row) for row in rows]
    if any(found[:cut]):
        return  # such a run has ended there
    resumed = spikes.Detector(settings, rows[:cut])
    assert [resumed.see(row) for row in rows[cut:]] == found[cut:]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_a_spike_at_once(value):
    with pytest.raises(spikes.SpikeError, match=r"one, iteration 7\. found: loss is not finite") as error:
        spikes.check_finite("one", 7, grad_norm=1.0, loss=value)
    assert error.value.spike.first == error.value.spike.last == 7
    spikes.check_finite("one", 7, loss=1.0)


def test_a_patience_that_can_never_be_reached_is_refused():
    """A lasting leap enters the window and is normal soon; the validator's bound is the true one."""
    for window, deviations in ((128, 6.0), (16, 2.0), (40, 3.0)):
        most = int((window - 1) / (1 + deviations**2)) + 1
        leap = records([*([1.0] * window), *([2.0] * window)], [1.0] * 2 * window)
        possible = Spikes(window=window, deviations=deviations, patience=most)
        assert seen(spikes.Detector(possible), leap)
        with pytest.raises(ValidationError, match="can never be reached"):
            Spikes(window=window, deviations=deviations, patience=most + 1)


def decide(run, settings, beginning=0):
    return spikes.decide(run, "one", settings, beginning)


def test_skip_leaves_out_the_spike_and_rewind_what_is_before_it_too(tmp_path):
    for policy, span in (("skip", (50, 52)), ("rewind", (40, 52))):
        run = tmp_path / policy
        run.mkdir()
        settings = Spikes(policy=policy, rewind_iterations=10)
        assert decide(run, settings) == []
        spikes.report(run, spikes.Spike(50, 52, "loss 9 > 3"))
        made = decide(run, settings)
        assert spikes.left_out(made) == [span]
        assert decide(run, settings) == made  # once


def test_a_decision_is_not_made_twice_when_the_launcher_dies_between(tmp_path):
    settings, spike = Spikes(policy="skip"), spikes.Spike(50, 52, "loss")
    spikes.report(tmp_path, spike)
    made = decide(tmp_path, settings)
    spikes.report(tmp_path, spike)  # as if it had not been removed yet
    assert decide(tmp_path, settings) == made


def test_a_rewind_stops_at_the_beginning_of_the_stage(tmp_path):
    spikes.report(tmp_path, spikes.Spike(105, 107, "loss"))
    assert spikes.left_out(decide(tmp_path, Spikes(policy="rewind"), beginning=100)) == [(101, 107)]


def test_too_many_spikes_stop_the_run(tmp_path):
    settings = Spikes(policy="skip", limit=1)
    spikes.report(tmp_path, spikes.Spike(5, 7, "loss"))
    decide(tmp_path, settings)
    spikes.report(tmp_path, spikes.Spike(9, 11, "loss"))
    with pytest.raises(spikes.TooMany, match=r"spike number 2, and `spikes\.limit` is 1"):
        decide(tmp_path, settings)


def test_a_checkpoint_counts_unless_it_learned_what_is_left_out():
    made = [spikes.Decision(50, 52, 49, ""), spikes.Decision(60, 60, 55, "")]
    usable = {
        (iteration, known): spikes.is_usable(iteration, known, made)
        for iteration in (49, 50, 55, 58)
        for known in (0, 1, 2)
    }
    assert [key for key, good in usable.items() if good] == [
        *[(49, 0), (49, 1), (49, 2)],
        *[(50, 1), (50, 2)],
        *[(55, 1), (55, 2)],
        (58, 2),
    ]
