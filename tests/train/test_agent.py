"""torch.distributed.run as we start it: requests to stop reach the trainers, which take time to save."""

import signal
import subprocess
import sys
import time
from pathlib import Path

from zgcm.train.agent import exit_code

TRAINER = """
import os, signal, sys, time
from pathlib import Path

place, rank = Path(sys.argv[1]), os.environ["RANK"]

def save(number, frame):
    time.sleep(1)
    (place / f"saved_{rank}").touch()
    sys.exit()

signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, save)
(place / f"started_{rank}").touch()
time.sleep(20)
"""
AGENT = [sys.executable, "-m", "zgcm.train.agent", "--standalone", "--nproc-per-node=2"]


def start(root: Path) -> subprocess.Popen[bytes]:
    script = root / "trainer.py"
    script.write_text(TRAINER)
    return subprocess.Popen([*AGENT, script, root], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_every_trainer_saves(tmp_path: Path) -> None:
    process = start(tmp_path)
    while len(list(tmp_path.glob("started_*"))) < 2:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)  # as a terminal does beside the launcher's SIGTERM
    process.terminate()
    assert process.wait(60) == 0
    assert len(list(tmp_path.glob("saved_*"))) == 2


def test_asked_before_its_trainers_are_there_it_starts_none(tmp_path: Path) -> None:
    process = start(tmp_path)
    time.sleep(0.5)  # torch alone takes seconds to load
    process.terminate()
    assert process.wait(60) in (128 + signal.SIGTERM, -signal.SIGTERM)
    assert not list(tmp_path.glob("started_*"))


def test_it_ends_with_the_code_of_the_trainer_that_failed_first(tmp_path: Path) -> None:
    script = tmp_path / "trainer.py"
    script.write_text("import os, sys, time\nsys.exit(37) if os.environ['RANK'] == '1' else time.sleep(60)\n")
    ended = subprocess.run([*AGENT, script], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 37
    assert "rank      : 1 (local_rank: 1)" in ended.stderr, "and says which"
    assert exit_code(-signal.SIGKILL) == 137
