"""One function on many items: results in order, failures told together, wherever the items run."""

import time
from pathlib import Path

import pytest

from zgcm.errors import ZgcmError
from zgcm.files.fanout import Fanout, run_all


def square(number: int) -> int:
    if number == 3:
        raise ZgcmError("Three is refused", where="items:3", hint="leave it out")
    time.sleep(0.05 / (number + 1))
    return number * number


@pytest.fixture(autouse=True)
def jobs_find_this_module(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


KINDS = [
    Fanout(),
    Fanout(jobs=2),
    pytest.param(Fanout(jobs=2, cluster="local"), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("fanout", KINDS)
def test_results_are_in_the_order_of_the_items(fanout, tmp_path):
    heard = []
    fanout = Fanout(fanout.jobs, fanout.cluster, tmp_path / "jobs")
    assert run_all(square, [2, 0, 1], fanout, lambda item, result: heard.append((item, result))) == [4, 0, 1]
    assert sorted(heard) == [(0, 0), (1, 1), (2, 4)]


@pytest.mark.parametrize("fanout", KINDS)
def test_a_failure_stops_no_other_item(fanout, tmp_path):
    heard = []
    fanout = Fanout(fanout.jobs, fanout.cluster, tmp_path / "jobs")
    with pytest.raises(ZgcmError, match="Three is refused") as caught:
        run_all(square, [3, 1, 2], fanout, lambda item, result: heard.append(item))
    assert sorted(heard) == [1, 2]
    assert caught.value.where == "items:3"
    assert caught.value.hint == "leave it out; 1 of 3 files failed, others are done"


def test_without_slurm_the_error_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ZgcmError, match=r"no srun.*--fanout local"):
        run_all(square, [1], Fanout(1, "slurm", tmp_path), lambda item, result: None)


def test_slurm_options_reach_submitit(monkeypatch, tmp_path):
    import submitit

    (tmp_path / "srun").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    seen = {}

    class Executor:
        def __init__(self, folder, cluster):
            seen.update(folder=str(folder), cluster=cluster)

        def update_parameters(self, **parameters):
            seen.update(parameters)

        def map_array(self, function, items):
            return [type("Job", (), {"result": lambda self, item=item: function(item)})() for item in items]

    monkeypatch.setattr(submitit, "AutoExecutor", Executor)
    fanout = Fanout(jobs=7, cluster="slurm", options={"partition": "cpu", "time": "60"})
    assert run_all(square, [1, 2], fanout, lambda item, result: None) == [1, 4]
    assert seen["slurm_partition"] == "cpu"
    assert (seen["slurm_time"], seen["slurm_array_parallelism"], seen["cluster"]) == ("60", 7, "slurm")
