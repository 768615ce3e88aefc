"""The promise of the tiny recipe: it learns its tasks, and GRPO improves each of them, whatever the seed."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from zgcm.config.load import load_recipe

CHECKOUT = Path(__file__).parents[2]


def seeded(seed: int) -> dict:
    """An overlay that gives every stage another seed: weights, data shuffles, rollouts."""
    return {"stage_defaults": {kind: {"seed": seed} for kind in ("pretrain", "sft", "rl")}}


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_held_out_reward_rises_by_three_standard_errors(tmp_path, seed):
    overlay = tmp_path / "seed.yaml"
    overlay.write_text(yaml.safe_dump(seeded(seed)))
    recipes = [part for path in (CHECKOUT / "config/tiny.yaml", overlay) for part in ("--recipe", str(path))]
    stages = load_recipe([CHECKOUT / "config/tiny.yaml", overlay]).rl_stages()
    targets = [f"results/{name}/done" for name in stages]
    command = [sys.executable, "-m", "zgcm.cli", "run", *targets, "--directory", str(tmp_path)]
    ended = subprocess.run([*command, *recipes], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr

    assert {stage.domain for stage in stages.values()} >= {"math", "code", "if"}
    for name in stages:
        markers = sorted((tmp_path / "results" / name / "evaluations").glob("version_*.json"))
        first, last = (json.loads(marker.read_text())["stats"] for marker in (markers[0], markers[-1]))
        assert first["eval/completions"] >= 256
        assert 0.15 <= first["eval/raw_correct"] <= 0.60, name
        error = math.hypot(*(stats["eval/raw_correct_standard_error"] for stats in (first, last)))
        assert last["eval/raw_correct"] - first["eval/raw_correct"] >= 3 * error, name
