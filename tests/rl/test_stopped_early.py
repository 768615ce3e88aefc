"""Ctrl-C and kill while Ray, engine and learner start: a stop like any other, and nothing is left behind."""

import json
import os
import signal
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
