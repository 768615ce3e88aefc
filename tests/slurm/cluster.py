"""What the tests do on the local Slurm: start a workflow, look at its jobs, wait, and see how it ended."""

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from tests.train.workspace import make, write_documents, write_recipe
from zgcm.config.recipe import deep_merge

CHECKOUT = Path(__file__).parents[2]
ITERATIONS, SAVE_INTERVAL = 60, 20
STAGE = {
    # All cores of a pretended node, so that no two jobs share one; OMP_NUM_THREADS still says 1.
    "resources": {"nodes": 2, "cpus_per_process": 16},
    **{"seq_length": 16, "micro_batch_size": 1, "global_batch_size": 2},
    "schedule": {"train_iters": ITERATIONS},
    "checkpoints": {"save_interval": SAVE_INTERVAL},
}
# Only so that a test waits seconds where a user waits minutes.
PATIENCE = ["--slurm-init-seconds-before-status-checks", "2", "--seconds-between-status-checks", "2"]
PATIENCE += ["--latency-wait", "5"]


def workspace(root: Path, **stage: Any) -> Path:
    """The data of the stage `one` and its recipe, changed by `stage`."""
    longer = {"schedule": {"train_iters": 10 * ITERATIONS}}  # it counts from the beginning of `one`
    changes = {"stages": {"one": deep_merge(STAGE, stage), "two": longer}}
    _, layout = make(root / "results", **changes)
    for number, shard in enumerate(("00000", "00001")):
        manifest = layout.mix("first") / f"{shard}.json"
        write_documents(layout.mix_prefix("first", shard), manifest, np.random.default_rng(number), 400)
    write_recipe(root / "recipe.yaml", **changes)
    return root


def start(root: Path, *options: str) -> subprocess.Popen[bytes]:
    """`snakemake --profile slurm` for the stage `one`; what it prints goes to root/snakemake.log."""
    command = [sys.executable, "-m", "snakemake", "--profile", "slurm", "--directory", root, *PATIENCE]
    command += ["--configfile", root / "recipe.yaml", *options, "--", "results/one/done"]
    with (root / "snakemake.log").open("ab") as log:
        return subprocess.Popen(
            command, cwd=CHECKOUT, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
        )


def finish(process: subprocess.Popen[bytes], root: Path, seconds: float = 600) -> None:
    """Wait for a workflow that must succeed. A job that Slurm requeued would wait two minutes; not here."""

    def ended() -> bool:
        for job in jobs(root, "PENDING"):
            if slurm("squeue", "-h", "-j", job, "-o", "%r") == "BeginTime":
                slurm("scontrol", "update", f"jobid={job}", "StartTime=now")
        return process.poll() is not None

    wait_until(ended, f"the end of the workflow; {root}", seconds)
    assert process.returncode == 0, told(root)


def told(root: Path) -> str:
    """All that a person would look at after a failure."""
    logs = [root / "snakemake.log", *root.glob(".snakemake/slurm_logs/**/*.log")]
    logs += [root / "results/logs/train/one.log", *root.glob("results/one/runs/*/logs/*")]
    return "\n".join(f"--- {log}\n{log.read_text(errors='replace')[-3000:]}" for log in logs if log.exists())


def slurm(*command: str) -> str:
    """What a command of Slurm says; once more when a busy controller hangs up on it (SIGPIPE)."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if ended.returncode == -signal.SIGPIPE:
        time.sleep(1)
        return slurm(*command)
    ended.check_returncode()
    return ended.stdout.strip()


def jobs(root: Path, states: str = "PENDING,RUNNING,COMPLETING") -> list[str]:
    """Ids of this workflow's jobs, oldest first."""
    rows = slurm("squeue", "-h", "-t", states, "-o", "%A %Z", "-S", "i").splitlines()
    return [number for number, directory in (row.split(" ", 1) for row in rows) if directory == str(root)]


def wait_until(condition: Callable[[], Any], what: str, seconds: float = 400) -> Any:
    """The first true value of the condition."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.2)
    return value


def run_directory(root: Path) -> Path:
    return next((root / "results/one/runs").glob("*"))


def losses(root: Path) -> list[str]:
    """Losses as exact text."""
    path = next((root / "results/one/runs").glob("*/loss.jsonl"), None)
    lines = path.read_text().splitlines(keepends=True) if path else []
    return [float(json.loads(line)["loss"]).hex() for line in lines if line.endswith("\n")]


def attempts(root: Path) -> list[dict[str, Any]]:
    path = next((root / "results/one/runs").glob("*/run.json"), None)
    return json.loads(path.read_text())["attempts"] if path else []


def training(root: Path, iterations: int = SAVE_INTERVAL + 5) -> str:
    """Wait until so many iterations are done; the job's id."""
    wait_until(lambda: len(losses(root)) >= iterations, f"{iterations} iterations; {told(root)}")
    return jobs(root)[0]


def freeze(job: str) -> list[psutil.Process]:
    """Stop a job's trainers where they are, so that it lasts; Slurm wakes them before it asks them to end."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            command = process.cmdline()
            if "zgcm.train.entry" in command and "zgcm.train.agent" not in command and job_of(process) == job:
                found.append(process)
    assert len(found) == STAGE["resources"]["nodes"], found
    for process in found:
        process.suspend()
    return found


def job_of(process: psutil.Process) -> str | None:
    return process.environ().get("SLURM_JOB_ID")


def status(root: Path) -> dict[str, Any]:
    """The row of stage `one` in `zgcm status`."""
    command = [sys.executable, "-m", "zgcm.cli", "status", "--json", "--directory", root]
    shown = subprocess.run([*command, "--recipe", root / "recipe.yaml"], check=True, capture_output=True)
    return next(row for row in json.loads(shown.stdout) if row["stage"] == "one")


def result(root: Path) -> tuple[list[str], bytes]:
    """The losses of all iterations, and `done` with the digest of the weights."""
    return losses(root), (root / "results/one/done").read_bytes()
