"""Pass rates by shards and the choice of prompts: the same bytes whatever the shards.

A stand-in engine answers by the request's seed alone, as the real one does (the last test runs that).
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml
from bandit import prepare, prompt_rows
from measuring import SAMPLES, FakeEngine, call_here, common, measured, recipe_of

from zgcm import identity
from zgcm.config.load import load_recipe
from zgcm.config.recipe import Recipe
from zgcm.errors import ZgcmError
from zgcm.layout import Layout, shard_name
from zgcm.rl import difficulty
from zgcm.rl.rewards.pool import Verdict
from zgcm.rundir import difficulty as tables


def chosen(layout: Layout) -> tuple[bytes, bytes]:
    return layout.difficulty("rl_math").read_bytes(), layout.kept_prompts("rl_math").read_bytes()


def test_one_shard_and_three_give_the_same_bytes(root: Path) -> None:
    layout = measured(root, recipe := recipe_of(root, shards=1), 1)
    facts = difficulty.gather(recipe, layout, "rl_math")
    one = chosen(layout)
    shutil.rmtree(layout.stage("rl_math"))
    layout = measured(root, recipe := recipe_of(root, shards=3), 3)
    assert difficulty.gather(recipe, layout, "rl_math") == facts
    assert chosen(layout) == one
    rows, _ = tables.read_table(layout.difficulty("rl_math"))
    assert [row["sample_id"] for row in rows] == [f"train{number}" for number in range(40)]
    assert {row["samples"] for row in rows} == {SAMPLES} and {row["domain"] for row in rows} == {"math"}
    assert all(row["pass_rate"] == row["passes"] / SAMPLES == row["mean_reward"] for row in rows)
    assert any(row["truncated"] == 0.25 for row in rows)
    kept = [json.loads(line) for line in one[1].splitlines()]
    known = {row["sample_id"]: row for row in prompt_rows("train", 40)}
    assert kept == [known[row["sample_id"]] for row in rows if row["kept"]], "rows as they were, in order"
    assert {row["reason"] for row in rows} == {"", "too_easy"}
    assert facts["kept"] + facts["too_easy"] == 40 and sum(facts["prompts_by_passes"]) == 40


def test_a_lost_shard_alone_is_measured_again(root: Path) -> None:
    layout = measured(root, recipe := recipe_of(root, shards=3), 3)
    path = layout.pass_rates("rl_math", "00001", 3)
    before = path.read_bytes()
    path.unlink()
    with pytest.raises(ZgcmError, match="missing") as caught:
        difficulty.gather(recipe, layout, "rl_math")
    assert "zgcm pass-rates rl_math 00001" in caught.value.hint
    FakeEngine.asked.clear()
    difficulty.measure_shard(recipe, layout, "rl_math", "00001")
    assert path.read_bytes() == before and FakeEngine.asked.total() == 13


def test_another_number_of_shards_takes_over_what_was_measured(root: Path) -> None:
    measured(root, recipe_of(root, shards=1), 1)
    FakeEngine.asked.clear()
    layout = measured(root, recipe := recipe_of(root, shards=2), 2)
    difficulty.gather(recipe, layout, "rl_math")
    assert not FakeEngine.asked
    measured(root, recipe_of(root, shards=2, samples=2), 2)
    assert FakeEngine.asked.total() == 40, "with other settings everything is sampled"


def test_bounds_are_kept_and_the_choice_alone_depends_on_them(root: Path) -> None:
    layout = measured(root, loose := recipe_of(root, max_pass_rate=1.0), 1)
    difficulty.gather(loose, layout, "rl_math")
    passes = [row["passes"] for row in tables.read_table(layout.difficulty("rl_math"))[0]]
    strict = recipe_of(root, min_pass_rate=0.25, max_pass_rate=0.5)
    assert same_id(loose, strict, "pass_rates")
    assert not same_id(loose, strict, "difficulty") and not same_id(loose, strict, "rl")
    difficulty.gather(strict, layout, "rl_math")
    rows, _ = tables.read_table(layout.difficulty("rl_math"))
    assert [row["kept"] for row in rows] == [1 <= count <= 2 for count in passes]
    assert [row["reason"] for row in rows if row["passes"] == 0] == ["too_hard"] * passes.count(0)
    assert passes.count(0), "the test needs one that was never solved"


def same_id(one: Recipe, other: Recipe, step: str) -> bool:
    return identity.recipe_id(one, step, "rl_math") == identity.recipe_id(other, step, "rl_math")


def test_learning_and_execution_are_no_part_of_pass_rates(root: Path) -> None:
    recipe = recipe_of(root)
    other = yaml.safe_load((root / "recipe.yaml").read_text())
    stage = other["stages"]["rl_math"]
    stage["learner"]["lr"] = 0.5
    stage["rollout"]["sampling"]["n_samples"] = 7
    stage["reward"]["length_penalty"]["max"] = 0.5
    stage["difficulty"] |= {"shards": 9, "resources": {"mem_mb": 7}}
    (root / "other.yaml").write_text(yaml.safe_dump(other, sort_keys=False))
    changed = load_recipe([root / "other.yaml"])
    assert same_id(recipe, changed, "pass_rates") and not same_id(recipe, changed, "rl")
    stage["seed"] = 7
    (root / "other.yaml").write_text(yaml.safe_dump(other, sort_keys=False))
    assert not same_id(recipe, load_recipe([root / "other.yaml"]), "pass_rates")


def test_too_few_kept_prompts_are_told_with_their_pass_rates(root: Path) -> None:
    layout = measured(root, recipe := recipe_of(root, train=10, max_pass_rate=0.0), 1)
    with pytest.raises(ZgcmError, match="Too few training prompts") as caught:
        difficulty.gather(recipe, layout, "rl_math")
    assert caught.value.where == "stages.rl_math.difficulty"
    assert "too_easy of 10 left out" in caught.value.found and "by passes of 4: 0: " in caught.value.found
    assert "max_pass_rate" in caught.value.hint and "4 steps of 5 prompts" in caught.value.expected
    assert not layout.difficulty("rl_math").exists()


def test_responses_without_a_verdict_are_no_passes_and_are_told(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Pool:
        def judge(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict]:
            return [Verdict(answer == "7", "" if answer == "7" else "timeout") for answer, _ in pairs]

    monkeypatch.setattr("zgcm.rl.rewards.router.verifier_pool", lambda *_: nullcontext(Pool()))
    recipe = recipe_of(root)
    rows = [row | {"answers": [r"\sqrt{49}", r"\frac{49}{7}"]} for row in prompt_rows("train", 40)]
    (root / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    layout = Layout(root / "results")
    facts = difficulty.measure_shard(recipe, layout, "rl_math", "00000")
    assert "timeout" in capsys.readouterr().err
    found, _ = tables.read_table(layout.pass_rates("rl_math", "00000", 1))
    cut_off = sum(row["truncated"] * SAMPLES for row in found)
    assert facts["not_judged"] == facts["responses"] - facts["passes"] - cut_off > 0
    assert facts["not_judged"] == sum(row["not_judged"] for row in found)
    call_here("difficulty", "rl_math", *common(root))
    assert f"; {facts['not_judged']} responses not judged" in capsys.readouterr().out


def test_bounds_between_which_nothing_lies_are_refused(root: Path) -> None:
    with pytest.raises(ZgcmError, match="no prompt can be kept"):
        recipe_of(root, min_pass_rate=0.3, max_pass_rate=0.4)


@pytest.mark.long
def test_the_real_engine_gives_the_same_bytes_in_one_shard_and_in_two(tmp_path: Path) -> None:
    found = []
    for shards in (1, 2):
        root = tmp_path / str(shards)
        root.mkdir()
        common = prepare(root, difficulty={"samples": 4, "max_pass_rate": 1.0, "shards": shards}, steps=1)[2:]
        if found:
            shutil.rmtree(root / "results/export")
            shutil.copytree(tmp_path / "1/results/export", root / "results/export")
        for index in range(shards):
            call("pass-rates", "rl_math", shard_name(index), *common)
        call("difficulty", "rl_math", *common)
        layout = Layout(root / "results")
        found.append(tables.read_table(layout.difficulty("rl_math"))[0])
    assert found[0] == found[1] and len(found[0]) == 10
    assert 0 < sum(row["passes"] for row in found[0]) < 40


def call(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", "zgcm.cli", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
