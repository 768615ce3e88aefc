"""`--smoke N`: the real run's first steps, and nothing left of them."""

import json
import os
import subprocess

import pytest
from typer.testing import CliRunner

from tests.train.commands import COMMAND, losses, run
from tests.train.workspace import make, write_recipe
from zgcm.cli import verbs  # noqa: F401
from zgcm.cli.app import app
from zgcm.errors import ZgcmError
from zgcm.train import smoke as room
from zgcm.train.arguments import plan
from zgcm.train.inputs import gather
from zgcm.train.launch import Outcome
from zgcm.train.run import load_options, trainer_settings

HORIZON = {"stages": {"one": {"optimizer": {"min_lr": 0.001, "lr_decay_style": "cosine"}}}}


def listing(root):
    return sorted(path.relative_to(root) for path in root.rglob("*"))


@pytest.mark.slow
def test_the_first_steps_of_the_real_run(tmp_path):
    """Loss and learning rate of every step, digit for digit, though the rate decays over all eight."""
    make(tmp_path / "results", **HORIZON)
    recipe = write_recipe(tmp_path / "recipe.yaml", **HORIZON)
    before = listing(tmp_path)
    where = ["-r", str(recipe), "--directory", str(tmp_path), "--json"]
    answer = subprocess.run(
        [*COMMAND, "one", "--smoke", "5", *where],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert answer.returncode == 0, answer.stderr
    facts = json.loads(answer.stdout)
    assert listing(tmp_path) == before
    assert run(tmp_path, "one")[0] == 0
    real = losses(tmp_path, "one")[:5]
    assert facts["losses"] == [record["loss"] for record in real]
    assert facts["learning_rates"] == [record["learning_rate"] for record in real]
    assert facts["learning_rates"][-1] < 0.01  # beyond the warm-up
    assert (facts["steps"], facts["stage_steps"]) == (5, 8)
    assert facts["tokens_per_second"] > 0 < facts["seconds_per_step"]
    assert "one step 5 of 8 loss" in answer.stderr


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    return make(tmp_path_factory.mktemp("smoke") / "results", stages={"tuned": {"init": None}})


@pytest.mark.parametrize("stage", ["one", "tuned"])
def test_the_arguments_differ_only_where_they_save_and_stop(ready, stage, tmp_path):
    changes = {"trackers": ["wandb", "swanlab"]}
    recipe, layout = make(ready[1].root, stages={"tuned": {"init": None, **changes}, "one": changes})
    inputs, length = gather(recipe, layout, stage), plan(recipe, layout, stage)
    told = room.settings(recipe, layout, stage, inputs, tmp_path, 3)
    options = [
        part for option in room.megatron_argv(recipe, layout, stage, tmp_path, length) for part in option
    ]
    options += load_options(recipe, layout, stage, tmp_path, inputs, resuming=False)
    wandb, save = options.index("--wandb-project"), options.index("--save")  # three options, two options
    assert save == wandb + 6
    assert told["argv"] == [*options[:wandb], *options[save + 4 :], "--exit-interval", "3"]
    real = trainer_settings(recipe, stage, tmp_path, inputs, length, options)
    assert {key for key in real if real[key] != told[key]} <= {"argv", "log_interval", "trackers"}
    assert told["trackers"] == []
    assert told["iterations"] == length.iterations


def test_more_steps_than_the_stage_has(ready):
    with pytest.raises(ZgcmError, match=r"found: 8 steps\. expected: at least 9"):
        room.smoke(*ready, "one", 9)


def test_a_failing_trainer_is_quoted_and_leaves_nothing(ready, monkeypatch):
    recipe, layout = ready
    before = listing(layout.root)
    scratch = layout.root / ".smoke_one"
    (scratch / "checkpoints").mkdir(parents=True)  # of a smoke run that was killed
    (scratch / "loss.jsonl").write_text("stale")

    def fail(resources, run, token, log):
        assert not (run / "loss.jsonl").exists()
        assert json.loads((run / "owner.json").read_text())["token"] == token
        return Outcome(1, False, ["CUDA out of memory"])

    monkeypatch.setattr(room, "launch", fail)
    with pytest.raises(ZgcmError, match=r"(?s)ended after 0 of 4 steps.*CUDA out of memory.*exit code 1"):
        room.smoke(recipe, layout, "one", 4)
    assert listing(layout.root) == before


def test_one_step_says_nothing_of_speed(ready, monkeypatch):
    def step(resources, run, token, log):
        record = {"iteration": 1, "loss": 5.0, "learning_rate": 0.1}
        (run / "loss.jsonl").write_text(json.dumps(record) + "\n")
        return Outcome(0, False, [])

    monkeypatch.setattr(room, "launch", step)
    facts = room.smoke(*ready, "one", 1)
    assert (facts["losses"], facts["seconds_per_step"]) == ([5.0], None)


def test_the_command_needs_a_positive_number():
    assert CliRunner().invoke(app, ["train", "one", "--smoke", "0"]).exit_code == 2
