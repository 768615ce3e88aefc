"""The loss log: exact floats, cut back to the loaded iteration."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zgcm.train import losslog


def record(log, iteration, loss=1.5):
    return log.record(iteration, iteration * 4, 0.001, loss=loss, grad_norm=0.5)


def test_records(tmp_path):
    log = losslog.LossLog(tmp_path, seq_length=10)
    made = [record(log, iteration) for iteration in range(1, 5)]
    assert losslog.read_losses(tmp_path) == made
    assert made[1] == {
        **{"iteration": 2, "loss": 1.5, "consumed_samples": 8, "consumed_tokens": 80},
        **{"learning_rate": 0.001, "grad_norm": 0.5},
    }


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_are_exact(value):
    assert json.loads(json.dumps(value)) == value


def test_cut_back_forgets_later_iterations_and_a_torn_line(tmp_path):
    log = losslog.LossLog(tmp_path, seq_length=10)
    for iteration in range(1, 6):
        record(log, iteration)
    whole = (tmp_path / losslog.LOSS).read_bytes().splitlines(keepends=True)
    with (tmp_path / losslog.LOSS).open("a") as stream:
        stream.write('{"iteration": 6, "lo')
    losslog.cut_back(tmp_path, 3)
    assert (tmp_path / losslog.LOSS).read_bytes() == b"".join(whole[:3])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_only_finite_numbers_are_written(tmp_path, value):
    log = losslog.LossLog(tmp_path, seq_length=10)
    with pytest.raises(ValueError, match="not JSON compliant"):
        record(log, 7, value)
    log.sync()
    assert losslog.read_losses(tmp_path) == []
