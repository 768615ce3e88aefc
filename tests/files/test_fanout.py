"""One function on many items: results in order, failures told together, wherever the items run."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from zgcm.errors import ZgcmError
from zgcm.files import submitted
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


def test_of_several_failures_five_are_named():
    def refuse(name: str) -> None:
        raise ZgcmError(f"{name} is refused")

    def told(*names: str) -> str:
        with pytest.raises(ZgcmError, match="a is refused") as caught:
            run_all(refuse, names, Fanout(), lambda item, result: None)
        return caught.value.hint

    assert told("a", "b") == "see above; 2 of 2 files failed (a, b)"
    assert told(*"abcdefg") == "see above; 7 of 7 files failed (a, b, c, d, e and 2 more)"


def test_without_slurm_the_error_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ZgcmError, match=r"no srun.*--fanout local"):
        run_all(square, [1], Fanout(1, "slurm", tmp_path), lambda item, result: None)


class FakeSlurm:
    """submitit's executor and the squeue that is asked: jobs end as they are told to."""

    def __init__(self, folder, ends):
        self.folder, self.ends, self.parameters, self.cancelled = folder, ends, {}, []

    def __call__(self, folder, cluster):
        self.parameters |= {"folder": folder, "cluster": cluster}
        return self

    def update_parameters(self, **parameters):
        self.parameters |= parameters

    def map_array(self, function, items):
        return [self.job(f"12_{number}", function, item) for number, item in enumerate(items)]

    def job(self, name, function, item):
        result = self.folder / f"{name}.pkl"
        if self.ends(item):
            result.touch()
        paths = SimpleNamespace(result_pickle=result, stderr=self.folder / f"{name}.err")
        cancel = partial(self.cancelled.append, name)
        return SimpleNamespace(
            job_id=name, paths=paths, result=lambda: function(item), cancel=lambda check: cancel()
        )


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """A Slurm whose squeue says what the file `queue` holds."""
    import submitit

    for name, script in (("srun", "exit 0"), ("squeue", f"cat {tmp_path}/queue")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "queue").write_text("")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(submitted, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(submitted, "ASK_SECONDS", 0.002)

    def make(ends):
        fake = FakeSlurm(tmp_path, ends)
        monkeypatch.setattr(submitit, "AutoExecutor", fake)
        return fake

    return make


def test_slurm_options_reach_submitit(slurm):
    fake = slurm(lambda item: True)
    fanout = Fanout(jobs=7, cluster="slurm", options={"partition": "cpu", "time": "60"})
    assert run_all(square, [1, 2], fanout, lambda item, result: None) == [1, 4]
    found = [fake.parameters[key] for key in ("slurm_partition", "slurm_time", "slurm_array_parallelism")]
    assert (found, fake.parameters["cluster"]) == (["cpu", "60", 7], "slurm")


def test_a_cancelled_job_is_told_and_stops_no_other(slurm):
    slurm(lambda item: item != 1)
    heard = []
    with pytest.raises(ZgcmError, match=r"ended without a result.*12_1\.err.*nor such a job in the queue"):
        run_all(square, [0, 1, 2], Fanout(3, "slurm"), lambda item, result: heard.append(item))
    assert heard == [0, 2]


def test_a_job_in_the_queue_is_waited_for_and_cancelled_when_the_waiting_ends(slurm, tmp_path, monkeypatch):
    fake = slurm(lambda item: False)
    (tmp_path / "queue").write_text("12_0\n12_1\n")
    asked = []

    def sleep(seconds):
        asked.append(seconds)
        if len(asked) == 50:
            raise KeyboardInterrupt

    monkeypatch.setattr(submitted.time, "sleep", sleep)
    with pytest.raises(KeyboardInterrupt):
        run_all(square, [0, 1], Fanout(2, "slurm"), lambda item, result: None)
    assert fake.cancelled == ["12_0", "12_1"]


def test_a_squeue_that_does_not_answer_says_nothing_about_jobs(slurm, tmp_path):
    slurm(lambda item: True)
    (tmp_path / "squeue").write_text("#!/bin/sh\necho no controller >&2\nexit 1\n")
    assert submitted._queued(["12_0"]) is None
    (tmp_path / "squeue").write_text("#!/bin/sh\necho Invalid job id specified >&2\nexit 1\n")
    assert submitted._queued(["12_0"]) == set()


def kill(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_a_killed_worker_is_one_paragraph():
    with pytest.raises(ZgcmError, match=r"worker process was killed.*fewer --jobs"):
        run_all(kill, [1, 2], Fanout(jobs=2), lambda item, result: None)


ORPHANS = """
import sys, time
from pathlib import Path
from test_fanout import wait_for_ever
from zgcm.files.fanout import Fanout, run_all
if __name__ == "__main__":
    run_all(wait_for_ever, [Path(sys.argv[1]), Path(sys.argv[2])], Fanout(jobs=2), print)
"""


def wait_for_ever(path: Path) -> None:
    path.write_text(str(os.getpid()))
    time.sleep(600)


def test_workers_end_with_their_parent(tmp_path):
    (tmp_path / "main.py").write_text(ORPHANS)
    marks = [tmp_path / "one", tmp_path / "two"]
    parent = subprocess.Popen([sys.executable, tmp_path / "main.py", *marks])
    until(lambda: all(mark.exists() and mark.read_text() for mark in marks))
    parent.kill()
    parent.wait()
    until(lambda: not any(is_running(int(mark.read_text())) for mark in marks))


def until(condition) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_running(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
