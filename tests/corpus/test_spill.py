"""A spill directory never outlives the next start."""

import signal
import subprocess
import sys
from pathlib import Path

from zgcm.corpus.spill import spill_directory

KILLED = """
import os, signal, sys
from pathlib import Path
from zgcm.corpus.spill import spill_directory
with spill_directory(Path(sys.argv[1])) as spill:
    (spill / "data").write_bytes(b"x")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_gone_at_the_end_and_after_an_error(tmp_path):
    try:
        with spill_directory(tmp_path) as spill:
            (spill / "data").write_bytes(b"x")
            raise RuntimeError
    except RuntimeError:
        assert list(tmp_path.iterdir()) == []


def test_what_a_killed_owner_left_goes_at_the_next_start_and_a_living_ones_stays(tmp_path: Path):
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    with spill_directory(tmp_path) as first:
        assert not left.exists()
        with spill_directory(tmp_path) as second:
            assert first.exists() and second.exists() and first != second
    assert list(tmp_path.iterdir()) == []
