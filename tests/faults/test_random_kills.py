"""`kill -9` at ten random moments of every kind of stage; the end is that of a run that was never killed.

The moments are drawn from a seed: an iteration, and a delay after its record is written. Four of them wait
for the next save instead and strike inside it. Whether a checkpoint was half-written is seen on the disk.
"""

import random
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.train.commands import done, kill_when, losses, run, run_directory, start
from tests.train.workspace import make, write_recipe
from zgcm.train import attempts
from zgcm.train.checkpoints import TRACKER, complete_iterations

KILLS, IN_SAVES = 10, 4
# Enough iterations for ten kills, a save every second one.
CHANGES = {
    "stages": {
        "one": {"schedule": {"train_iters": 30}, "checkpoints": {"save_interval": 2}},
        "two": {"schedule": {"train_iters": 60}, "checkpoints": {"save_interval": 2}},
        "mid": {
            "schedule": {"train_samples": 120, "lr_decay_samples": 120},
            "checkpoints": {"save_interval": 2},
        },
        "tuned": {"checkpoints": {"save_interval": 4}},
    }
}
CHAIN = ["one", "two", "mid", "tuned"]
KINDS = {"one": "pretrain", "two": "continued pretraining", "mid": "midtrain", "tuned": "sft"}


@dataclass
class Kill:
    after: int
    """Records in loss.jsonl."""
    in_save: bool
    delay: float
    """Seconds after the condition holds."""
    half_written: bool = False


def moments(stage: str, records: int, kills: int = KILLS, in_saves: int = IN_SAVES) -> list[Kill]:
    draw = random.Random(f"kills of {stage}")
    after = sorted(draw.sample(range(1, records - 1), kills))
    saves = set(draw.sample(range(kills), in_saves))
    return [Kill(at, n in saves, draw.uniform(0, 0.03 if n in saves else 0.1)) for n, at in enumerate(after)]


def strike(root: Path, stage: str, kill: Kill) -> None:
    """Run until the moment, then kill -9 the whole process group. What the attempt before left counts not:
    the moment comes after the new attempt has cleared it away."""
    before = len(tried(root, stage))

    def now() -> bool:
        reached = len(tried(root, stage)) > before and len(losses(root, stage)) >= kill.after
        if reached and (not kill.in_save or half_written(root, stage)):
            time.sleep(kill.delay)
            return True
        return False

    kill_when(start(root, stage), now)
    kill.half_written = half_written(root, stage)


def tried(root: Path, stage: str) -> list[dict[str, Any]]:
    directory = run_directory(root, stage)
    return attempts.read(directory) if directory else []


def half_written(root: Path, stage: str) -> bool:
    directory = run_directory(root, stage) or root
    present = {int(path.name[5:]) for path in (directory / "checkpoints").glob("iter_*")}
    return bool(present - set(complete_iterations(directory / "checkpoints")))


def check_tracker(root: Path, stage: str) -> None:
    """It names a complete checkpoint or none; empty as a kill between megatron's open and write leaves it."""
    checkpoints = (run_directory(root, stage) or root) / "checkpoints"
    if (checkpoints / TRACKER).exists() and (text := (checkpoints / TRACKER).read_text()):
        assert int(text) in complete_iterations(checkpoints)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("uninterrupted")
    make(root / "results", **CHANGES), write_recipe(root / "recipe.yaml", **CHANGES)
    for stage in CHAIN:
        code, errors = run(root, stage)
        assert code == 0, errors
    return root


def before(uninterrupted: Path, root: Path, stage: str) -> Path:
    """The workspace as it was before `stage`."""
    later = CHAIN[CHAIN.index(stage) :]
    shutil.copytree(uninterrupted, root, ignore=lambda path, names: later if path.endswith("results") else [])
    return root


@pytest.mark.long
@pytest.mark.parametrize("stage", CHAIN, ids=KINDS.values())
def test_ten_kills_change_nothing(uninterrupted, stage, tmp_path, record_property):
    root = before(uninterrupted, tmp_path / "killed", stage)
    kills = moments(stage, len(losses(uninterrupted, stage)))
    for kill in kills:
        strike(root, stage, kill)
        check_tracker(root, stage)
    record_property("kills", [vars(kill) for kill in kills])
    print(stage, *kills, sep="\n")
    assert sum(kill.half_written for kill in kills) >= 2
    code, errors = run(root, stage)
    assert code == 0, errors
    assert losses(root, stage) == losses(uninterrupted, stage)
    assert done(root, stage) == done(uninterrupted, stage), "the digest of the weights among all else"
