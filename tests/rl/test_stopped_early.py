"""Ctrl-C and kill while Ray, engine and learner start, or end: a stop like any other, and nothing is left."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from bandit import prepare
from test_stage import DEADLINE, none_left, only_run, start, wait_for_line

pytestmark = pytest.mark.slow

BEGUN = "starting Ray"


def ctrl_c_of_a_workflow(pid: int, number: int) -> None:
    """The terminal's SIGINT to all, then the workflow's SIGTERM to the verb."""
    os.killpg(pid, number)
    time.sleep(0.4)
    os.kill(pid, signal.SIGTERM)


def wait_for_engine(process: psutil.Process) -> None:
    end = time.monotonic() + DEADLINE
    while not any("EngineActor" in one.name() for one in process.children(recursive=True)):
        assert time.monotonic() < end and process.is_running()
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("number", "send", "in_ray"),
    [
        pytest.param(signal.SIGTERM, os.kill, True, id="kill while Ray starts"),
        pytest.param(signal.SIGINT, ctrl_c_of_a_workflow, False, id="Ctrl-C while the engine starts"),
        pytest.param(signal.SIGTERM, os.kill, False, id="kill while the engine starts"),
    ],
)
def test_a_start_is_stopped_in_good_order(
    tmp_path: Path, number: int, send: Callable[[int, int], None], in_ray: bool
) -> None:
    process = start(prepare(tmp_path), tmp_path / "log")
    wait_for_line(process, tmp_path / "log", BEGUN)
    if not in_ray:
        wait_for_engine(psutil.Process(process.pid))
    group = psutil.Process(process.pid).children(recursive=True)
    send(process.pid, number)
    assert process.wait(120) == 128 + number, (tmp_path / "log").read_text()
    none_left(group)
    lines = (tmp_path / "log").read_text().splitlines()
    (place,) = (index for index, line in enumerate(lines) if BEGUN in line)
    assert lines[place + 1 :] == [
        "zgcm: Stopped at your request: rl_math had saved no step yet; the same command begins it anew."
    ]
    run = only_run(tmp_path)
    (attempt,) = json.loads((run / "run.json").read_text())["attempts"]
    assert attempt["stopped_on_request"] and attempt["to_step"] == 0
    assert not (run / "stopped.json").exists() and not (run / "logs" / "ray").exists()


LAST_SECOND = """
import os, signal, sys, threading
from pathlib import Path
from zgcm import stopping
from zgcm.rl.cluster import ray_cluster

with stopping.deferring() as asked:
    with ray_cluster(cpus=1, gpus=0, logs=Path(sys.argv[1]) / "ray"):
        threading.Timer(float(sys.argv[2]), os.kill, (os.getpid(), signal.SIGTERM)).start()
        print("trained", flush=True)
    print("asked:", asked())
"""


@pytest.mark.parametrize("after", [0.5, 0.8, 1.1])
def test_a_kill_while_ray_ends_is_noted(tmp_path: Path, after: float) -> None:
    """All is trained and saved by then: the stage goes on to its `done`, and ended without a word before."""
    command = [sys.executable, "-c", LAST_SECOND, tmp_path, str(after)]
    told = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    assert (told.returncode, told.stdout) == (0, "trained\nasked: 15\n"), told.stderr
    assert list(tmp_path.iterdir()) == []
