"""Ctrl-C and kill, from the workflow's head down to the trainer; what is left, and what is said."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.train.commands import done, losses, run_directory
from tests.train.workspace import make, write_recipe
from tests.workflow.jobs import CHECKOUT
from zgcm import stopping
from zgcm.train import attempts
from zgcm.train.checkpoints import complete_iterations

STEPS, SAVES = 24, 10
ZGCM = [sys.executable, "-m", "zgcm.cli", "run", "--recipe"]
SNAKEMAKE = [sys.executable, "-m", "snakemake", "--configfile"]
VERB = """
import sys, time
from pathlib import Path
from zgcm.cli import main, verbs
from zgcm.cli.app import app
from zgcm.io import atomic_open

@app.command()
def work(path: Path) -> None:
    with atomic_open(path) as stream:
        stream.write(b"half")
        print("writing", flush=True)
        time.sleep(600)

main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_verb_ends_at_once_and_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", VERB, "work", tmp_path / "file"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    process.send_signal(number)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 128 + number
    assert errors.strip().splitlines() == [
        "zgcm: Stopped at your request; nothing half-made was left. The same command goes on."
    ]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", stopping.REQUESTS)
def test_held_requests_reach_only_the_handler_of_before(number: signal.Signals) -> None:
    def of_somebody_else(number: int, frame: Any) -> None:
        raise AssertionError("somebody else took the request over")

    seen: list[int] = []
    earlier = signal.signal(number, lambda number, frame: seen.append(number))
    try:
        mine = signal.getsignal(number)
        with stopping.held():
            signal.signal(number, of_somebody_else)
            signal.raise_signal(number)
            assert not seen
        assert seen == [number] and signal.getsignal(number) is mine
    finally:
        signal.signal(number, earlier)


IN_C = """
import ctypes, os, signal, time
from zgcm import stopping

with stopping.deferring() as asked:
    with stopping.held():
        ctypes.CDLL(None).signal(signal.SIGTERM, None)  # SIG_DFL, as Ray's core leaves it
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)
        assert not asked()
    print("asked:", asked())
"""


def test_a_library_that_leaves_a_signal_to_the_system_ends_nothing() -> None:
    """Below Python, where signal.signal does not see it."""
    told = subprocess.run([sys.executable, "-c", IN_C], capture_output=True, text=True, timeout=60)
    assert (told.returncode, told.stdout) == (0, "asked: 15\n"), told.stderr


def prepared(root: Path) -> Path:
    """Everything that training needs is there: the workflow has one job."""
    length = {"schedule": {"train_iters": STEPS}, "checkpoints": {"save_interval": SAVES}}
    changes = {"stages": {"one": length, "two": {"schedule": {"train_iters": 60}}}}
    make(root / "results", **changes)
    write_recipe(root / "recipe.yaml", **changes)
    return root


def start(root: Path, command: list[str]) -> subprocess.Popen[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ZGCM_")}
    return subprocess.Popen(
        [*command, root / "recipe.yaml", "--directory", root, "--cores", "1", "results/one/done"],
        cwd=CHECKOUT,
        env={**environment, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def wait_for_step(root: Path, process: subprocess.Popen[str], step: int) -> None:
    while len(losses(root, "one")) < step:
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.005)


def processes(root: Path) -> list[psutil.Process]:
    """All that work in `root`: Snakemake, shells, tee, verb, trainers."""
    return [process for process in psutil.process_iter(["cwd"]) if process.info["cwd"] == str(root)]


def saved(root: Path) -> list[int]:
    directory = run_directory(root, "one")
    assert directory is not None
    return complete_iterations(directory / "checkpoints")


@pytest.mark.slow
def test_ctrl_c_saves_and_nothing_is_called_failed(tmp_path: Path) -> None:
    root = prepared(tmp_path)
    process = start(root, ZGCM)
    wait_for_step(root, process, 3)
    os.killpg(process.pid, signal.SIGINT)
    shown = process.communicate(timeout=300)[0]
    assert process.returncode == 130
    (step,) = saved(root)
    assert 3 <= step < SAVES
    told = f"zgcm: Stopped at your request: one saved step {step} of {STEPS}; the same command continues."
    assert told in shown
    assert told in (root / "results/logs/train/one.log").read_text(), "Ctrl-C does not end the log's tee"
    assert shown.endswith(
        "Stopped at your request. The same command goes on from what is finished or saved.\n"
    )
    assert not re.search(r"FAILED|Error|Traceback|Not finished", shown), shown
    assert processes(root) == []


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = prepared(tmp_path_factory.mktemp("undisturbed"))
    process = start(root, ZGCM)
    shown = process.communicate(timeout=900)[0]
    assert process.returncode == 0, shown
    return root


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "send", "number"),
    [
        pytest.param(ZGCM, os.kill, signal.SIGTERM, id="kill zgcm run"),
        pytest.param(SNAKEMAKE, os.kill, signal.SIGTERM, id="kill snakemake"),
        pytest.param(SNAKEMAKE, os.killpg, signal.SIGTERM, id="SIGTERM to every process, as Slurm sends it"),
    ],
)
def test_stopped_it_goes_on_as_if_it_never_had(tmp_path, undisturbed, command, send, number) -> None:
    root = prepared(tmp_path)
    process = start(root, command)
    wait_for_step(root, process, 3)
    send(process.pid, number)
    shown = process.communicate(timeout=300)[0]
    assert process.returncode == (143 if command is ZGCM else 1)  # Snakemake knows no other code
    (step,) = saved(root)
    assert f"Stopped at your request: one saved step {step} of {STEPS}" in shown
    assert processes(root) == []
    (tried,) = attempts.read(run_directory(root, "one"))
    assert tried["stopped_on_request"]
    goes_on(root, undisturbed, step)


@pytest.mark.long
def test_a_second_ctrl_c_ends_at_once(tmp_path: Path, undisturbed: Path) -> None:
    root = prepared(tmp_path)
    process = start(root, ZGCM)
    wait_for_step(root, process, SAVES + 3)
    hold_trainers(root)
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)
    shown = process.communicate(timeout=30)[0]
    assert process.returncode == 130
    assert shown.endswith("Ended at once. The same command goes on from what was finished or saved before.\n")
    assert not re.search(r"FAILED|Error|Traceback|Not finished", shown), shown
    assert processes(root) == []
    assert saved(root) == [SAVES], "the steps since the last checkpoint are lost, nothing else"
    goes_on(root, undisturbed, SAVES)


def hold_trainers(root: Path) -> None:
    """As a save that takes minutes would."""
    for process in processes(root):
        if "zgcm.train.entry" in process.cmdline():
            process.suspend()


def goes_on(root: Path, undisturbed: Path, step: int) -> None:
    process = start(root, ZGCM)
    shown = process.communicate(timeout=900)[0]
    assert process.returncode == 0, shown
    assert f"one continues at step {step} of {STEPS}" in shown
    assert losses(root, "one") == losses(undisturbed, "one")
    assert done(root, "one") == done(undisturbed, "one")
