"""The throughput log: every figure of a line follows from the clock and the FLOPs a token."""

import json

import pytest

from zgcm.train import speed
from zgcm.train.losslog import SPEED


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(speed.time, "time", lambda: now[0])
    return now


def feed(pace, clock, iterations, seconds=0.5):
    for iteration in range(1, iterations + 1):
        clock[0] += seconds
        pace.see(
            {
                **{"iteration": iteration, "loss": 2.5, "grad_norm": 0.5, "learning_rate": 0.001},
                "consumed_tokens": iteration * 4000,
            }
        )


def pace(run, **more):
    settings = {"flops_full": 5e9, "flops_windowed": 4e9, "ranks": 4, **more}
    return speed.Speed(run, "one", 6, 2, **settings)


def test_every_figure_of_a_line(tmp_path, clock, capsys):
    sent = []
    feed(pace(tmp_path, peak=100.0, sinks=(lambda *line: sent.append(line),)), clock, 6)
    lines = [json.loads(line) for line in (tmp_path / SPEED).read_text().splitlines()]
    assert [line["iteration"] for line in lines] == [2, 4, 6]
    assert lines[1] == {
        **{"iteration": 4, "loss": 2.5, "grad_norm": 0.5, "learning_rate": 0.001},
        **{"seconds_per_iteration": 0.5, "tokens_per_second": 8000.0, "tokens_per_second_per_gpu": 2000.0},
        **{"tflops_per_gpu_full": 10.0, "tflops_per_gpu_windowed": 8.0, "mfu": 0.08},
        **{"seconds_left": 1.0, "time": 102.0},
    }
    assert sent[1] == ({name: lines[1][name] for name in sent[1][0]}, 4)
    assert "mfu" in sent[1][0]
    printed = capsys.readouterr().err.splitlines()
    assert printed[1] == (
        "zgcm-progress one step 4 of 6 loss 2.500 grad 0.50 lr 0.001 8,000 tokens/s "
        "(2,000 a GPU, 10 TFLOP/s full, 8 windowed, MFU 8.0%) 1.0 s left"
    )
    assert printed[2].endswith("finished")


def test_a_stage_that_continues_counts_its_own_steps(tmp_path, clock, capsys):
    feed(pace(tmp_path, first=2), clock, 4)
    assert "zgcm-progress one step 2 of 4 (iteration 4 of 6) loss" in capsys.readouterr().err


def test_without_a_known_peak_there_is_no_mfu(tmp_path, clock, capsys):
    feed(pace(tmp_path), clock, 2)
    assert json.loads((tmp_path / SPEED).read_text())["mfu"] is None
    assert "MFU" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("device", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", 989.0),
        ("NVIDIA H100 PCIe", 756.0),
        ("NVIDIA H200", 989.0),
        ("NVIDIA A100-SXM4-80GB", 312.0),
        ("NVIDIA GB200", 2500.0),
        ("NVIDIA B200", 2250.0),
        ("Quadro P400", None),
    ],
)
def test_peaks_by_the_devices_name(device, peak):
    assert speed.peak_tflops(device) == peak
