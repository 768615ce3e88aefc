"""scripts/slurm-lab without Slurm: it says what is missing, and the one command that installs it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.workflow.jobs import CHECKOUT

TOOLS = ("dirname", "realpath")  # what the script uses before it looks for Slurm


@pytest.mark.parametrize(
    ("options", "missing", "packages"),
    [
        (["check"], {"sbatch", "srun", "munge"}, "slurm-wlm munge"),
        (["start"], {"sbatch", "srun", "munge"}, "slurm-wlm munge"),
        (["check", "--accounting"], {"sbatch", "mariadb"}, "slurm-wlm munge slurmdbd mariadb-server"),
    ],
)
def test_missing_packages_are_named_and_nothing_is_started(
    options: list[str], missing: set[str], packages: str, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        (tmp_path / "bin" / tool).symlink_to(str(shutil.which(tool)))
    (tmp_path / "bin/id").write_text("#!/bin/sh\necho 0\n")  # only root may start it
    (tmp_path / "bin/id").chmod(0o755)
    lab = tmp_path / "lab"
    environment = {**os.environ, "PATH": str(tmp_path / "bin"), "SLURM_LAB_DIR": str(lab)}
    ended = subprocess.run(
        ["/bin/bash", CHECKOUT / "scripts/slurm-lab", *options],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    what, _, command = line.partition(". On Debian or Ubuntu: ")
    start, _, named = what.partition("not installed: ")
    assert start == "slurm-lab: " and missing <= set(named.split())
    assert command == f"apt-get install --no-install-recommends {packages}"
    assert not lab.exists()
