"""Noise in data that is otherwise easy: a run stops, skips or rewinds; killed in between it ends the same."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.train.commands import done, kill_when, losses, run, run_directory, start
from tests.train.workspace import make, report, write_items, write_recipe
from zgcm.config.recipe import deep_merge
from zgcm.io import write_json
from zgcm.train import checkpoints
from zgcm.train.losslog import read_losses

pytestmark = pytest.mark.slow

BATCH = 4 * 32  # tokens of an iteration
NOISE = (17, 18)  # iterations whose batches are noise
STAGE = {
    "schedule": {"train_iters": 24, "lr_warmup_iters": 2},
    "optimizer": {"lr": 0.01},
    "checkpoints": {"save_interval": 4},
    "spikes": {"window": 12, "deviations": 2.0, "patience": 2},
}


def stages(**changes) -> dict:
    return {"one": deep_merge(STAGE, changes), "two": {"schedule": {"train_iters": 30}}}


def workspace(root: Path, **changes) -> Path:
    _, layout = make(root / "results", stages=stages(**changes))
    write_recipe(root / "recipe.yaml", stages=stages(**changes))
    stream = np.resize(np.arange(1, 17), BATCH * 24 + 1)  # a cycle of 16 tokens, learned in a few steps
    noise = slice((NOISE[0] - 1) * BATCH, NOISE[1] * BATCH)
    stream[noise] = np.random.default_rng(0).integers(1, 250, stream[noise].size)
    for shard, part in zip(("00000", "00001"), np.array_split(stream, 2), strict=True):
        prefix = layout.mix_prefix("first", shard)
        write_items(prefix, [part.tolist()], np.uint16)
        write_json(layout.mix("first") / f"{shard}.json", report(prefix, documents=1, tokens=len(part)))
    return root


def iterations(root):
    return [record["iteration"] for record in losses(root, "one")]


def test_stop_names_the_last_good_checkpoint_and_goes_on_when_the_recipe_tolerates_more(tmp_path):
    root = workspace(tmp_path)
    code, errors = run(root, "one")
    assert code == 1
    assert "one, iteration 17 to 18. found: loss" in errors
    assert "last good checkpoint: iteration 16" in errors
    assert "refuses further attempts" in run(root, "one")[1]
    (run_directory(root, "one") / "stopped.json").unlink()
    assert "iteration 17 to 18" in run(root, "one")[1], "the same settings see the same spike"
    (run_directory(root, "one") / "stopped.json").unlink()
    write_recipe(root / "recipe.yaml", stages=stages(spikes={"window": 128}))
    assert run(root, "one")[0] == 0, "with policy stop the thresholds are no identity: the same run goes on"
    assert iterations(root) == list(range(1, 25))


@pytest.mark.parametrize(
    ("policy", "span"),
    [
        ({"policy": "skip"}, (17, 18)),
        pytest.param({"policy": "rewind", "rewind_iterations": 6}, (11, 18), marks=pytest.mark.long),
    ],
)
def test_the_batches_are_left_out_and_a_kill_changes_nothing(tmp_path, policy, span):
    root = workspace(tmp_path / "whole", spikes=policy)
    code, errors = run(root, "one")
    assert code == 0, errors
    assert f"one leaves out iterations {span[0]} to {span[1]}" in errors
    assert iterations(root) == [*range(1, span[0]), *range(span[1] + 1, 25)]
    after = losses(root, "one")[span[0] - 1]
    assert after["consumed_samples"] == 4 * after["iteration"], "the data goes on behind the span"
    before = losses(root, "one")[span[0] - 2]
    assert after["loss"] < before["loss"], "the weights never saw the noise"
    assert json.loads(done(root, "one"))["left_out_after_spikes"] == [list(span)]
    tried = json.loads((run_directory(root, "one") / "run.json").read_text())["attempts"]
    assert [attempt.get("spike", {}).get("first") for attempt in tried] == [17, None]

    killed = workspace(tmp_path / "killed", spikes=policy)
    directory = lambda: run_directory(killed, "one") or killed  # noqa: E731
    kill_when(start(killed, "one"), lambda: (directory() / "spike.json").exists())
    kill_when(start(killed, "one"), lambda: len(losses(killed, "one")) in range(span[0], 22))
    code, errors = run(killed, "one")
    assert code == 0, errors
    assert losses(killed, "one") == losses(root, "one")
    assert done(killed, "one") == done(root, "one")


@pytest.mark.long
def test_a_run_that_was_stopped_goes_on_when_the_policy_changes(tmp_path):
    root = workspace(tmp_path)
    assert run(root, "one")[0] == 1
    stopped = run_directory(root, "one")
    write_recipe(root / "recipe.yaml", stages=stages(spikes={"policy": "skip"}))
    code, errors = run(root, "one")
    assert code == 0, errors
    assert f"one begins with what {stopped} trained before its spike" in errors
    assert "one continues at step 16 of 24" in errors
    skipped = next(path for path in stopped.parent.iterdir() if path != stopped)
    assert [row["iteration"] for row in read_losses(skipped)] == [*range(1, 17), *range(19, 25)]
    assert checkpoints.complete_iterations(stopped / "checkpoints") == [12, 16], "the other run is left alone"


def test_an_older_checkpoint_is_kept_for_the_rewind(tmp_path):
    """keep_recent: 1 would leave iteration 16 alone, and the rewind needs one at 10 or before."""
    policy = {"policy": "rewind", "rewind_iterations": 6}
    root = workspace(tmp_path, spikes=policy, checkpoints={"keep_recent": 1})
    code, errors = run(root, "one")
    assert code == 0, errors
    assert "one continues at step 4 of 24" in errors
    assert checkpoints.complete_iterations(run_directory(root, "one") / "checkpoints") == [4, 24]


def test_spikes_without_end_stop_the_run(tmp_path):
    changes = {"optimizer": {"lr": 1e15}, "schedule": {"lr_warmup_iters": 0}}
    changes["spikes"] = {"policy": "skip", "limit": 2}
    make(tmp_path / "results", stages={"one": changes})
    write_recipe(tmp_path / "recipe.yaml", stages={"one": changes})
    code, errors = run(tmp_path, "one")
    assert code == 1
    assert "spike number 3, and `spikes.limit` is 2" in errors
    assert "refuses further attempts" in run(tmp_path, "one")[1]
