"""Where, when and with what a run was attempted: the facts of `run.json`; none may decide a result."""

import importlib.metadata
import os
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any


def circumstances(packages: Iterable[str]) -> dict[str, Any]:
    """This moment, process, machine and checkout, and the versions of those packages that are installed."""
    return {
        "started": time.time(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "slurm_job_id": os.environ.get("SLURM_JOB_ID"),
        "commit": commit(),
        "versions": versions(packages),
    }


def commit() -> str | None:
    """The checkout's commit, with a + when it has changes; None outside a checkout."""
    describe = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty=+", "--abbrev=12"]
    try:
        answer = subprocess.run(describe, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None


def versions(packages: Iterable[str]) -> dict[str, str]:
    found = {"python": platform.python_version(), "executable": sys.executable}
    for package in packages:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found
