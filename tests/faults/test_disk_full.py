"""A disk that fills up during a save, and has room again: on a file system of a few megabytes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

# Run inside a mount namespace of its own, so that nothing stays mounted whatever happens.
SCRIPT = """
import os, subprocess, sys
from pathlib import Path
from tests.train.commands import done, losses, run, run_directory, start
from tests.train.workspace import make, write_recipe
from zgcm.train.checkpoints import TRACKER, complete_iterations, latest_whole

root = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(root)], check=True)
make(root / "results"), write_recipe(root / "recipe.yaml")
process = start(root, "one")
directory = lambda: run_directory(root, "one") or root
checkpoints = lambda: directory() / "checkpoints"
while not (checkpoints() / TRACKER).exists():
    assert process.poll() is None
with (root / "ballast").open("wb") as ballast:  # room for the small files, not for a checkpoint (0.7 MB)
    space = os.statvfs(root)
    os.posix_fallocate(ballast.fileno(), 0, space.f_bavail * space.f_frsize - 300_000)
errors = process.communicate()[1]
assert process.returncode == 1, errors
assert "The disk is full; this checkpoint was not saved, the one before it is whole" in errors, errors
assert "iter_0000006" in errors and "MB free" in errors, errors
assert complete_iterations(checkpoints()) == [3] == [latest_whole(checkpoints())[0]]
assert (checkpoints() / TRACKER).read_text() == "3"
assert not (directory() / "stopped.json").exists(), "a full disk is no reason to refuse the next attempt"
(root / "ballast").unlink()
code, errors = run(root, "one")
assert code == 0, errors
assert "one continues at step 3 of 8" in errors
Path(sys.argv[2]).write_bytes(done(root, "one"))
"""


def test_a_full_disk_leaves_the_checkpoint_before_and_room_is_enough_to_go_on(tmp_path):
    from tests.train.commands import done, run
    from tests.train.workspace import make, write_recipe

    whole, full = tmp_path / "whole", tmp_path / "full"
    full.mkdir()
    result = subprocess.run(
        ["unshare", "--mount", *own_user(), sys.executable, "-c", SCRIPT, str(full), str(tmp_path / "done")],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    make(whole / "results"), write_recipe(whole / "recipe.yaml")
    assert run(whole, "one")[0] == 0
    assert (tmp_path / "done").read_bytes() == done(whole, "one")


def own_user() -> list[str]:
    """Who is not root may mount inside a user namespace of his own."""
    return [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
