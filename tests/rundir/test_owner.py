"""One writer per run directory, tried with live processes."""

import os
import signal
import subprocess
import sys

import pytest

from zgcm.errors import ZgcmError
from zgcm.io import write_json
from zgcm.rundir import owner

HOLD = """
import sys, time
from pathlib import Path
from zgcm.rundir.owner import owning
with owning(Path(sys.argv[1])):
    print("owned", flush=True)
    time.sleep(60)
"""

RACE = """
import sys, time
from pathlib import Path
from zgcm.errors import ZgcmError
from zgcm.rundir.owner import owning
sys.stdin.readline()
try:
    with owning(Path(sys.argv[1])):
        print("owned", flush=True)
        sys.stdin.readline()
except ZgcmError:
    print("refused", flush=True)
"""


def start(code: str, run) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", code, str(run)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_a_second_live_writer_is_refused_and_a_dead_one_replaced(tmp_path):
    holder = start(HOLD, tmp_path)
    assert holder.stdout.readline() == "owned\n"
    with pytest.raises(ZgcmError, match=rf"process {holder.pid} on "), owner.owning(tmp_path):
        pass
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with owner.owning(tmp_path) as me:
        assert owner.read_owner(tmp_path) == me
    assert owner.read_owner(tmp_path) is None


def test_of_many_takers_of_a_dead_run_exactly_one_wins(tmp_path):
    dead = start(HOLD, tmp_path)
    dead.stdout.readline()
    dead.kill()
    dead.wait()
    takers = [start(RACE, tmp_path) for _ in range(6)]
    for taker in takers:
        taker.stdin.write("go\n")
        taker.stdin.flush()
    verdicts = [taker.stdout.readline().strip() for taker in takers]
    for taker in takers:
        taker.communicate("done\n")
    assert sorted(verdicts) == ["owned"] + ["refused"] * 5


def test_a_reused_pid_is_another_process(tmp_path):
    me = owner.this_process()
    assert owner.is_alive(me, tmp_path)
    assert not owner.is_alive(owner.Owner(**{**me.__dict__, "started": me.started - 100}), tmp_path)


def test_an_owner_on_another_host_lives_as_long_as_its_heartbeat(tmp_path):
    me = owner.this_process()
    elsewhere = owner.Owner(**{**me.__dict__, "host": "elsewhere", "slurm_job_id": None})
    (tmp_path / owner.NAME).write_text("{}")
    assert owner.is_alive(elsewhere, tmp_path)
    old = (tmp_path / owner.NAME).stat().st_mtime - owner.HEARTBEAT_LIMIT - 1
    os.utime(tmp_path / owner.NAME, (old, old))
    assert not owner.is_alive(elsewhere, tmp_path)


def test_a_writer_that_lost_its_run_publishes_nothing(tmp_path):
    with owner.owning(tmp_path) as me:
        owner.check(tmp_path, me.token)
        (tmp_path / owner.NAME).write_text((tmp_path / owner.NAME).read_text().replace(me.token, "another"))
        with pytest.raises(ZgcmError, match="no longer owns"):
            owner.check(tmp_path, me.token)
    assert owner.read_owner(tmp_path) is not None, "another owner's file is not removed"


@pytest.fixture
def squeue(tmp_path, monkeypatch):
    """What `squeue` prints and how it ends, whatever it is asked."""

    def answers(output: str = "", error: str = "", code: int = 0) -> None:
        (tmp_path / "bin").mkdir(exist_ok=True)
        script = tmp_path / "bin/squeue"
        script.write_text(f"#!/bin/sh\nprintf '%s' '{output}'\nprintf '%s' '{error}' >&2\nexit {code}\n")
        script.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    return answers


ROW = "7|RUNNING|n[1-2]|9:30|None|/runs/7b|rule_train_wildcards_sft\n"


def of_job(run, job="7", recipe_id="abc"):
    me = owner.this_process(recipe_id)
    elsewhere = owner.Owner(**{**me.__dict__, "host": "elsewhere", "slurm_job_id": job})
    write_json(run / owner.NAME, elsewhere.__dict__)
    return elsewhere


def test_a_slurm_job_lives_as_long_as_the_queue_lists_it(tmp_path, squeue, monkeypatch):
    them = of_job(tmp_path)
    squeue(ROW)
    assert owner.is_alive(them, tmp_path)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert not owner.is_alive(them, tmp_path), "the same job, requeued"
    monkeypatch.delenv("SLURM_JOB_ID")
    squeue("")
    assert not owner.is_alive(them, tmp_path)
    squeue(error="slurm_load_jobs error: Invalid job id specified", code=1)
    assert not owner.is_alive(them, tmp_path), "forgotten some minutes after its end"
    squeue(error="Unable to contact slurm controller", code=1)
    assert owner.is_alive(them, tmp_path), "nobody knows, and the heartbeat is young"


def test_the_job_that_a_dead_workflow_left_is_found_by_what_it_makes(tmp_path, squeue):
    (tmp_path / "one").mkdir()
    of_job(tmp_path / "one")
    squeue(ROW)
    assert owner.live_job(tmp_path, "abc") == "7"
    assert owner.live_job(tmp_path, "another recipe") is None
    squeue("")
    assert owner.live_job(tmp_path, "abc") is None
