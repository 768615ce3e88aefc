"""`zgcm status`: each state from the files that mean it."""

import json
import os
import re
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_results import fake_results
from snakemake_executor_plugin_slurm.utils import get_job_wildcards
from typer.testing import CliRunner

from zgcm.cli import verbs  # noqa: F401
from zgcm.cli.app import app
from zgcm.cli.dryrun import Job, totals
from zgcm.cli.status import table
from zgcm.config.recipe import Recipe
from zgcm.io import write_json
from zgcm.layout import Layout
from zgcm.rundir import owner
from zgcm.status import stage_states


def states(recipe: Recipe, layout: Layout) -> dict[str, dict]:
    return {row["stage"]: row for row in stage_states(recipe, layout)}


RULE = re.compile(r"^rule (\w+):\n((?: .*\n|\n)+)", re.M)


def comment(recipe: Recipe, stage: str) -> str:
    """What the executor writes at the job of the rule that makes a stage's `done`."""
    text = "\n".join(path.read_text() for path in Path(__file__).parents[2].glob("rules/*.smk"))
    makers = [
        (name, set(re.findall(r"\{(\w+)\}", body)) - {"log"})
        for name, body in RULE.findall(text)
        for group in re.findall(r"stage=one_of\(RECIPE\.(\w+)\(\)\)", body)
        if '"results/{stage}/done"' in body and stage in getattr(recipe, group)()
    ]
    ((name, wildcards),) = makers
    assert wildcards == {"stage"}
    return f"rule_{name}_wildcards_{get_job_wildcards(SimpleNamespace(wildcards=[stage]))}"


def change(recipe: Recipe, stage: str, **keys: object) -> Recipe:
    optimizer = recipe.stages[stage].optimizer.model_copy(update=keys)  # type: ignore[union-attr]
    changed = recipe.stages[stage].model_copy(update={"optimizer": optimizer})
    return recipe.model_copy(update={"stages": {**recipe.stages, stage: changed}})


def test_everything_done(tiny: Recipe, complete: Layout) -> None:
    assert {row["state"] for row in stage_states(tiny, complete)} == {"done"}


def test_a_changed_rate_makes_its_stage_and_all_after_it_stale_and_names_the_key(
    tiny: Recipe, complete: Layout
) -> None:
    rows = states(change(tiny, "midtrain_64k", lr=0.5), complete)
    assert rows["midtrain_16k"]["state"] == "done"
    assert rows["midtrain_64k"]["detail"] == "changed: optimizer.lr"
    assert rows["midtrain_256k"]["detail"] == "built on train:midtrain_64k, changed since"
    assert [rows[name]["state"] for name in ("midtrain_64k", "midtrain_256k", "sft", "rl_math")] == [
        "stale"
    ] * 4


def test_execution_keys_make_nothing_stale(tiny: Recipe, complete: Layout) -> None:
    stage = tiny.stages["sft"].model_copy(update={"log_interval": 7})
    assert (
        states(tiny.model_copy(update={"stages": {**tiny.stages, "sft": stage}}), complete)["sft"]["state"]
        == "done"
    )


def test_a_dead_owner_is_an_interrupted_run(tiny: Recipe, unfinished: Layout) -> None:
    row = states(tiny, unfinished)["midtrain_64k"]
    assert (row["state"], row["step"], row["steps"]) == ("interrupted", 3, 8)
    assert row["loss"] is not None


def test_a_run_of_another_recipe_is_not_resumed(tiny: Recipe, unfinished: Layout) -> None:
    changed = change(tiny, "pretrain_1t", lr=0.5)
    run = next(unfinished.runs("midtrain_64k").iterdir())
    row = states(changed, unfinished)["midtrain_64k"]
    assert (row["state"], row["step"], row["steps"], row["loss"]) == ("waiting", 0, 8, None)
    assert row["detail"] == f"begins anew; another recipe's run: {run}"
    write_json(run / owner.NAME, asdict(owner.this_process()))
    assert states(changed, unfinished)["midtrain_64k"]["state"] == "running"


def test_the_recipes_own_run_comes_before_one_written_later(tiny: Recipe, unfinished: Layout) -> None:
    run = next(unfinished.runs("midtrain_64k").iterdir())
    write_json(run.with_name("other") / "run.json", {"recipe_id": "0123456789ab", "attempts": []})
    row = states(tiny, unfinished)["midtrain_64k"]
    assert (row["state"], row["step"], row["run_id"]) == ("interrupted", 3, run.name)


def test_a_run_that_stopped_at_a_spike_is_resumed_by_one_that_skips_it(
    tiny: Recipe, unfinished: Layout
) -> None:
    spikes = tiny.stages["midtrain_64k"].spikes.model_copy(update={"policy": "skip"})  # type: ignore[union-attr]
    stage = tiny.stages["midtrain_64k"].model_copy(update={"spikes": spikes})
    skipping = tiny.model_copy(update={"stages": {**tiny.stages, "midtrain_64k": stage}})
    assert states(skipping, unfinished)["midtrain_64k"]["state"] == "interrupted"


def test_a_dry_run_says_how_much_an_interrupted_run_has_trained(tiny: Recipe, unfinished: Layout) -> None:
    train, export, raw = (
        Job(rule, "", "missing output", {"stage": stage})
        for rule, stage in (("train", "midtrain_64k"), ("export", "midtrain_64k"), ("raw", ""))
    )
    before = Job("train", "", "forced", {"stage": "midtrain_16k"})

    def said(*jobs: Job) -> str:
        return next(line for line in totals(list(jobs), tiny, unfinished) if line.startswith("To train"))

    assert "8 steps in 1 stage (3 of them were trained before an interruption);" in said(train, export)
    assert "interruption" not in said(raw, train), "other data, so another run"
    assert "interruption" not in said(before, train)


def test_a_live_owner_is_a_running_one(tiny: Recipe, unfinished: Layout) -> None:
    run = next(unfinished.runs("midtrain_64k").iterdir())
    write_json(run / owner.NAME, asdict(owner.this_process()))
    assert states(tiny, unfinished)["midtrain_64k"]["state"] == "running"


def test_steps_continue_from_the_stage_before(tiny: Recipe, unfinished: Layout) -> None:
    assert states(tiny, unfinished)["pretrain_3p2t"]["step"] == 150


def test_half_a_line_is_left_for_next_time(tiny: Recipe, unfinished: Layout) -> None:
    run = next(unfinished.runs("midtrain_64k").iterdir())
    with (run / "loss.jsonl").open("a") as stream:
        stream.write('{"iteration": 4, "lo')
    assert states(tiny, unfinished)["midtrain_64k"]["step"] == 3


def test_results_of_another_recipe_are_refused(unfinished: Layout) -> None:
    write_json(unfinished.stamp, {"name": "zgcm-7b", "recipe": "config/zgcm-7b.yaml"})
    answer = CliRunner().invoke(app, ["status", "--directory", str(unfinished.root.parent)])
    assert answer.exit_code != 0
    assert "belong to another recipe" in str(answer.exception)


def test_json_is_data(recipe_files: list[Path], unfinished: Layout) -> None:
    recipes = [part for path in recipe_files for part in ("--recipe", str(path))]
    answer = CliRunner().invoke(
        app, ["status", "--json", "--directory", str(unfinished.root.parent), *recipes]
    )
    assert answer.exit_code == 0
    rows = json.loads(answer.stdout)
    reached = [row["stage"] for row in rows].index("midtrain_64k")
    waiting = len(rows) - reached - 1
    assert [row["state"] for row in rows] == ["done"] * reached + ["interrupted"] + ["waiting"] * waiting


def test_a_stage_on_a_cluster_shows_its_job_nodes_speed_and_time_left(
    tiny: Recipe, unfinished: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = unfinished.root.parent.resolve()
    rows = f"8|RUNNING|n[1-2]|9:30|None|{where}|{comment(tiny, 'midtrain_64k')}\\n"
    rows += f"9|PENDING||10:00|Dependency|{where}|{comment(tiny, 'midtrain_64k')}\\n"
    rows += f"10|PENDING||10:00|Resources|{where}|{comment(tiny, 'rl_math')}\\n"
    rows += f"11|RUNNING|n3|10:00|None|/elsewhere|{comment(tiny, 'sft')}\\n"
    (tmp_path / "squeue").write_text(f"#!/bin/sh\nprintf '{rows}'\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    run = next(unfinished.runs("midtrain_64k").iterdir())
    write_json(run / owner.NAME, asdict(owner.this_process()))
    speed = {"iteration": 3, "tokens_per_second": 1234.5, "seconds_left": 61.0}
    (run / "speed.jsonl").write_text(json.dumps(speed) + "\n")
    made = states(tiny, unfinished)
    row = made["midtrain_64k"]
    assert (row["state"], row["job"], row["nodes"]) == ("running", "8", "n[1-2]")
    assert (row["tokens_per_second"], row["seconds_left"]) == (1234.5, 61.0)
    assert "9:30 until its limit" in row["detail"]
    assert made["rl_math"]["detail"] == "job 10 waits in the queue: Resources"
    assert made["sft"]["job"] is None, "another directory's"
    lines = table(list(made.values()))
    assert lines[0].split() == [
        "stage",
        "state",
        "job",
        "nodes",
        "step",
        "loss",
        "or",
        "reward",
        "tokens/s",
        "left",
    ]
    assert "1,234" in next(line for line in lines if line.startswith("midtrain_64k"))


def test_a_running_rl_stage_shows_speed_and_time_left(tiny: Recipe, tmp_path: Path) -> None:
    layout = fake_results(tiny, tmp_path / "results", upto="rl_math", steps=3)
    run = next(layout.runs("rl_math").iterdir())
    write_json(run / owner.NAME, asdict(owner.this_process()))
    rewards = [json.loads(line) for line in (run / "reward.jsonl").read_text().splitlines()]
    tokens = [row["mean_tokens"] * row["responses"] for row in rewards]
    spent = [{"rollout": 60.0, "learner": 40.0}, {"rollout": 2.0, "sync": 1.0}, {"rollout": 5.0}]
    lines = [json.dumps({"step": step, "seconds": parts}) for step, parts in enumerate(spent, start=1)]
    left = tiny.stages["rl_math"].steps - 3  # type: ignore[union-attr]

    (run / "speed.jsonl").write_text("\n".join(lines) + "\n")
    row = states(tiny, layout)["rl_math"]
    assert row["state"] == "running"
    assert row["tokens_per_second"] == pytest.approx(sum(tokens) / 108)
    assert row["seconds_left"] == pytest.approx(5 * left), "the first step's start does not count"

    (run / "speed.jsonl").write_text("\n".join(lines[:2]) + "\n")
    row = states(tiny, layout)["rl_math"]
    assert row["tokens_per_second"] == pytest.approx(sum(tokens[:2]) / 103), "the third step's is to come"
    (run / "speed.jsonl").unlink()
    assert states(tiny, layout)["rl_math"]["tokens_per_second"] is None
