"""The stage table that ends `zgcm run`: its numbers, and that it can be had quickly."""

import subprocess
import sys

from zgcm.config.recipe import Recipe
from zgcm.io import read_json
from zgcm.layout import Layout
from zgcm.report.table import render, stage_table


def test_a_continued_stage_counts_its_own_steps_and_tokens(tiny: Recipe, complete: Layout) -> None:
    rows = {row["stage"]: row for row in stage_table(tiny, complete)}
    assert rows["pretrain_1t"]["steps"] == 100
    assert rows["pretrain_3p2t"]["steps"] == 150
    assert rows["pretrain_3p2t"]["tokens"] == 150 * 16 * 64
    assert rows["midtrain_16k"]["tokens"] == 384 * 64


def test_sft_length_follows_its_data(tiny: Recipe, complete: Layout) -> None:
    rows = {row["stage"]: row for row in stage_table(tiny, complete)}
    assert rows["sft"]["steps"] == 205_824 // 1024


def test_reward_is_of_evaluations_not_of_training_rollouts(tiny: Recipe, complete: Layout) -> None:
    rows = {row["stage"]: row for row in stage_table(tiny, complete)}
    for name in tiny.rl_stages():
        done = read_json(complete.done(name))
        assert rows[name]["reward_first"] == done["evaluations"][0]["mean_raw_reward"] != done["reward_first"]


def test_a_partial_stage_shows_what_it_has(tiny: Recipe, unfinished: Layout) -> None:
    rows = {row["stage"]: row for row in stage_table(tiny, unfinished)}
    assert (rows["midtrain_64k"]["steps"], rows["midtrain_64k"]["planned_steps"]) == (3, 8)
    assert rows["sft"]["steps"] is None
    assert "3 of 8" in render(list(rows.values()))


def test_imports_stay_cheap() -> None:
    heavy = "torch", "matplotlib", "numpy", "pandas", "jinja2"
    code = f"import sys, zgcm.report.table, zgcm.status; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
