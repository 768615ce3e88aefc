"""`zgcm plan`: the published schedule's numbers, and what it says it assumes."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from zgcm.cli import verbs  # noqa: F401
from zgcm.cli.app import app
from zgcm.cli.plan import render
from zgcm.config.load import load_recipe
from zgcm.io import write_json
from zgcm.layout import Layout
from zgcm.plan import Assumption, cost_plan
from zgcm.train.lengths import checkpoints_kept

ROOT = Path(__file__).parents[1]
SEVEN = load_recipe([ROOT / "config/zgcm-7b.yaml"])
TINY = load_recipe([ROOT / "config/tiny.yaml"])


@pytest.fixture(scope="module")
def costs(tmp_path_factory: pytest.TempPathFactory) -> dict:
    return cost_plan(SEVEN, Layout(tmp_path_factory.mktemp("none")), Assumption())


def test_steps_and_tokens_are_the_published_ones(costs: dict) -> None:
    rows = {row["stage"]: row for row in costs["stages"]}
    assert {name: (row["steps"], row["tokens"]) for name, row in rows.items() if row["kind"] != "rl"} == {
        "pretrain_1t": (79_473, 1_000_001_765_376),
        "pretrain_3p2t": (254_314, 3_200_010_682_368),
        "midtrain_16k": (14_305, 179_998_556_160),
        "midtrain_64k": (19_073, 239_993_880_576),
        "midtrain_256k": (14_345, 180_501_872_640),
        "sft": (15_467, 15_467 * 48 * 262_144),
    }
    assert {row["gpus"] for name, row in rows.items() if row["kind"] != "rl"} == {192}


def test_published_rate_gives_the_published_duration(costs: dict) -> None:
    """585 TFLOP/s a GPU by the full count: about 2.10M tokens/s on 192 GPUs, 23.1 days for 4.2T tokens."""
    rows = [row for row in costs["stages"] if row["stage"].startswith("pretrain")]
    assert rows[0]["tokens_per_second_per_gpu"] * 192 == pytest.approx(2.10e6, rel=0.005)
    assert sum(row["hours"] for row in rows) / 24 == pytest.approx(23.1, abs=0.1)


def test_the_assumed_rate_is_near_the_published_sft_rate(costs: dict) -> None:
    """377.6K tokens/s were seen on 64 GPUs at 256K."""
    (row,) = (row for row in costs["stages"] if row["stage"] == "sft")
    assert row["tokens_per_second_per_gpu"] == pytest.approx(377_600 / 64, rel=0.1)


def test_a_given_rate_wins_and_is_named(tmp_path: Path) -> None:
    given = cost_plan(SEVEN, Layout(tmp_path), Assumption(tokens_per_second=1000.0))
    first = given["stages"][0]
    assert first["gpu_hours"] == pytest.approx(1_000_001_765_376 / 1000 / 3600)
    assert "1,000 tokens/s a GPU in every stage, as given" in given["assumption"]


def test_length_of_sft_without_data_is_unknown_not_guessed(tmp_path: Path) -> None:
    (row,) = (
        row for row in cost_plan(TINY, Layout(tmp_path), Assumption())["stages"] if row["stage"] == "sft"
    )
    assert row["steps"] is row["tokens"] is row["disk_bytes"] is None


def test_no_gpus_no_time(tmp_path: Path) -> None:
    plan = cost_plan(TINY, Layout(tmp_path), Assumption())
    assert plan["totals"]["gpu_hours"] == 0
    assert plan["stages"][0]["hours"] is None
    stage = TINY.train_stages()[plan["stages"][0]["stage"]]
    assert plan["stages"][0]["tokens"] == (
        (stage.schedule.train_iters or 0) * stage.global_batch_size * stage.seq_length
    )


def test_kept_checkpoints_are_the_recent_and_every_nth(tmp_path: Path) -> None:
    """pretrain_1t of the tiny recipe saves at 25, 50, 75, 100."""
    stage = TINY.train_stages()["pretrain_1t"]
    for keep_every, kept in ((None, 2), (25, 4), (50, 3), (1000, 2)):
        checkpoints = stage.checkpoints.model_copy(update={"keep_recent": 2, "keep_every": keep_every})
        stages = {**TINY.stages, "pretrain_1t": stage.model_copy(update={"checkpoints": checkpoints})}
        recipe = TINY.model_copy(update={"stages": stages})
        assert checkpoints_kept(recipe, Layout(tmp_path), "pretrain_1t") == kept


def test_assumed_weights_are_flagged_on_the_terminal(tmp_path: Path) -> None:
    recipe = str(ROOT / "config/zgcm-7b.yaml")
    answer = CliRunner().invoke(app, ["plan", "--recipe", recipe, "--directory", str(tmp_path)])
    assert answer.exit_code == 0, answer.output
    lines = {line.split()[0]: line for line in answer.stdout.splitlines() if line}
    assert "weights assumed" in lines["midtrain_mix16"]
    assert "Assumed: 468 TFLOP/s" in answer.stdout


def test_totals_name_the_stage_that_they_leave_out(tmp_path: Path) -> None:
    guards = dict.fromkeys(("expected_train_tokens", "expected_train_records"))
    sft = SEVEN.train_stages()["sft"].model_copy(update=guards)
    recipe = SEVEN.model_copy(update={"stages": {"sft": sft}})
    text = render(cost_plan(recipe, Layout(tmp_path), Assumption()))
    assert "Without sft:" in text
    assert "no GPUs asked for" not in text


def test_results_of_another_recipe_are_not_taken_for_its_own(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    write_json(layout.stamp, {"name": "tiny", "recipe": "config/tiny.yaml"})
    write_json(layout.done("pretrain_1t"), {"run_id": "x"})
    assert {row["state"] for row in cost_plan(SEVEN, layout, Assumption())["stages"]} == {"waiting"}


def test_json_is_data(tmp_path: Path) -> None:
    recipe = str(ROOT / "config/zgcm-7b.yaml")
    answer = CliRunner().invoke(app, ["plan", "--json", "--recipe", recipe, "--directory", str(tmp_path)])
    assert json.loads(answer.stdout)["totals"]["to_run"]["tokens"] > 4.9e12
