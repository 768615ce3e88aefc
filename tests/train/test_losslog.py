"""The loss log: exact floats, cut back to the loaded iteration, and a stop on what is not finite."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zgcm.errors import ZgcmError
from zgcm.train import losslog


def record(log, iteration, loss=1.5):
    log.record(iteration, loss, iteration * 4, 0.001, 0.5)


def test_records_and_progress(tmp_path, capsys):
    log = losslog.LossLog(tmp_path, "one", total=4, log_interval=2, seq_length=10)
    for iteration in range(1, 5):
        record(log, iteration)
    assert losslog.read_losses(tmp_path)[1] == {
        **{"iteration": 2, "loss": 1.5, "consumed_samples": 8, "consumed_tokens": 80},
        **{"learning_rate": 0.001, "grad_norm": 0.5},
    }
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" loss")[0] for line in lines] == ["zgcm-progress one 2/4", "zgcm-progress one 4/4"]
    assert len((tmp_path / losslog.SPEED).read_text().splitlines()) == 2


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_are_exact(value):
    assert json.loads(json.dumps(value)) == value


def test_cut_back_forgets_later_iterations_and_a_torn_line(tmp_path):
    log = losslog.LossLog(tmp_path, "one", total=9, log_interval=9, seq_length=10)
    for iteration in range(1, 6):
        record(log, iteration)
    whole = (tmp_path / losslog.LOSS).read_bytes().splitlines(keepends=True)
    with (tmp_path / losslog.LOSS).open("a") as stream:
        stream.write('{"iteration": 6, "lo')
    losslog.cut_back(tmp_path, 3)
    assert (tmp_path / losslog.LOSS).read_bytes() == b"".join(whole[:3])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_stops(tmp_path, value):
    log = losslog.LossLog(tmp_path, "one", total=9, log_interval=9, seq_length=10)
    with pytest.raises(ZgcmError, match=r"loss is not finite.*iteration 7"):
        record(log, 7, value)
    assert losslog.read_losses(tmp_path) == []
