"""Files outside any recipe as a job array of a real Slurm, through submitit."""

import subprocess
import sys
from pathlib import Path

from tests.slurm.cluster import slurm, wait_until
from zgcm.records import write_records

FILES = ("a", "b", "c")


def clean(root: Path, output: str, *options: str) -> subprocess.Popen[str]:
    files = [f"{name}.jsonl" for name in FILES]
    keys = ["--category", "general_text", "--stage", "pretrain", "--output", output]
    command = [sys.executable, "-m", "zgcm.cli", "clean", *files, *keys, *options]
    return subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def outputs(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def queued() -> list[str]:
    return slurm("squeue", "-h", "--array", "-n", "zgcm", "-o", "%i").split()


def test_a_cancelled_job_is_told_and_the_same_command_does_the_rest(lab: Path, tmp_path: Path) -> None:
    for name in FILES:
        write_records(
            tmp_path / f"{name}.jsonl", [{"text": f"{name}{row}: a text to keep."} for row in range(50)]
        )
    there = ("--fanout", "slurm", "--jobs", "2", "--slurm", "time=5")
    partition = slurm("sinfo", "-h", "-o", "%R").split()[0]
    slurm("scontrol", "update", f"partitionname={partition}", "state=down")
    try:
        process = clean(tmp_path, "there", *there)
        first, *_ = wait_until(lambda: len(queued()) == len(FILES) and sorted(queued()), "three jobs")
        slurm("scancel", first)
    finally:
        slurm("scontrol", "update", f"partitionname={partition}", "state=up")
    _, said = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "A job ended without a result" in said and "1 of 3 files failed, others are done" in said
    assert {name.split(".")[0] for name in outputs(tmp_path / "there")} == {"b", "c"}
    for process in (clean(tmp_path, "there", *there), clean(tmp_path, "here")):
        _, said = process.communicate(timeout=300)
        assert process.returncode == 0, said
    assert outputs(tmp_path / "there") == outputs(tmp_path / "here")
