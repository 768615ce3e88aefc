"""`zgcm train` as its own process group, as a shell or Snakemake starts it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-m", "zgcm.cli", "train"]


def start(root: Path, stage: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment["ZGCM_RECIPE"] = str(root / "recipe.yaml")
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        environment.pop(name, None)
    return subprocess.Popen(
        [*COMMAND, stage, "--directory", root],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(root: Path, stage: str) -> tuple[int, str]:
    """Run to the end. Returns (exit code, stderr)."""
    process = start(root, stage)
    _, errors = process.communicate(timeout=900)
    return process.returncode, errors


def kill_when(
    process: subprocess.Popen[str], condition: Callable[[], bool], number: int = signal.SIGKILL
) -> None:
    """kill -9 the whole process group once the condition holds."""
    deadline = time.time() + 900
    while not condition():
        assert process.poll() is None, f"ended too early: {process.stderr.read() if process.stderr else ''}"
        assert time.time() < deadline
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=300)


def run_directory(root: Path, stage: str) -> Path | None:
    return next((root / "results" / stage / "runs").glob("*"), None)


def losses(root: Path, stage: str) -> list[dict[str, Any]]:
    directory = run_directory(root, stage)
    path = directory / "loss.jsonl" if directory else None
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def done(root: Path, stage: str) -> bytes:
    return (root / "results" / stage / "done").read_bytes()
