"""The DAG of both recipes on a machine without GPUs, data or network."""

import re
import subprocess
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

from tests.workflow.jobs import CHECKOUT, Job, dry_run, snakemake
from zgcm import data_status
from zgcm.config.load import load_recipe
from zgcm.layout import Layout, source_shards

RECIPES = [CHECKOUT / "config/tiny.yaml", CHECKOUT / "config/zgcm-7b.yaml"]

MIX_RULE = re.compile("^mix_.*")


@pytest.fixture(scope="session", params=RECIPES, ids=lambda path: path.stem)
def planned(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[Job]]:
    directory = tmp_path_factory.mktemp(request.param.stem)
    return request.param, dry_run("--configfile", request.param, directory=directory)


def said(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout + done.stderr


def test_every_stage_and_shard_has_its_job(planned: tuple[Path, list[Job]]) -> None:
    path, jobs = planned
    recipe, count = load_recipe([path]), Counter(job.rule_name for job in jobs)
    shards = {name: len(source_shards(recipe, name)) for name in recipe.sources}
    packed = [mix for mix in recipe.mixes.values() if mix.kind == "packed"]
    documents = [mix for mix in recipe.mixes.values() if mix.kind == "documents"]
    fetched = [name for name, source in recipe.sources.items() if source.kind != "files"]
    assert count["train"] == len(recipe.train_stages())
    assert count["rl"] == len(recipe.rl_stages())
    assert all(count[f"mix_{mix}"] == 1 for mix in recipe.mixes)
    assert count["gather"] == sum(mix.shards for mix in documents)
    assert count["pack"] == sum(mix.shards for mix in packed)
    assert count["raw"] == sum(shards[name] for name in fetched)
    assert count["clean"] == count["fingerprint"] == count["index"] == sum(shards.values())
    assert count["tokenizer"] == count["report"] == count["all"] == 1


def test_status_looks_where_the_rules_write(planned: tuple[Path, list[Job]]) -> None:
    recipe, layout, rules = load_recipe([planned[0]]), Layout(), [*chain(*data_status.STEPS.values())]
    jobs = [job for job in planned[1] if (MIX_RULE.sub("mix", job.rule_name)) in rules]
    made = {file: job.log[0] for job in jobs for file in job.output if job.rule_name != "dedup"}
    known = [job for step in data_status.STEPS for job in data_status.jobs_of(recipe, layout, step)]
    assert {str(output): f"results/logs/{log}" for _, output, log in known}.items() <= made.items()
    assert len(known) == len(jobs) - len([job for job in jobs if job.rule_name == "dedup"])
    named = {job.rule_name: job.log[0] for job in jobs if job.rule_name == "dedup"}
    assert all(log.startswith("results/logs/dedup/") for log in named.values())


def test_every_job_says_what_it_does_and_keeps_its_log(planned: tuple[Path, list[Job]]) -> None:
    for job in planned[1]:
        assert job.rule_msg and "{" not in job.rule_msg, job
        if job.rule_name != "all":
            assert len(job.log) == 1 and job.log[0].startswith("results/logs/"), job
            assert str(job.benchmark).startswith("results/benchmarks/"), job
            assert int(job.resources["mem_mb"]) > 0 and int(job.resources["runtime"]) > 0, job


def test_resources_come_from_the_recipe(planned: tuple[Path, list[Job]]) -> None:
    recipe = load_recipe([planned[0]])
    stages = {
        job.wildcards["stage"]: job for job in planned[1] if job.output and job.output[0].endswith("/done")
    }
    assert set(stages) == set(recipe.stages)
    for name, job in stages.items():
        asked = recipe.stages[name].resources
        assert job.resources["nodes"] == job.resources["tasks"] == str(asked.nodes), job
        assert (job.resources.get("mpi") == "srun") == (asked.nodes > 1), job
        assert ("gpus-per-node" in job.resources["slurm_extra"]) == (asked.gpus_per_node > 0), job


def test_the_7b_recipe_asks_for_24_nodes_of_8_gpus(planned: tuple[Path, list[Job]]) -> None:
    if planned[0].stem != "zgcm-7b":
        return
    trained = [job for job in planned[1] if job.rule_name == "train" and job.wildcards["stage"] != "sft"]
    assert {job.resources["nodes"] for job in trained} == {"24"}
    assert {job.resources["slurm_extra"] for job in trained} == {"--gpus-per-node=8 --ntasks-per-node=1"}


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
@pytest.mark.parametrize("drawing", ["--dag", "--rulegraph"])
def test_the_graph_is_drawn(recipe: Path, drawing: str, tmp_path: Path) -> None:
    done = snakemake(drawing, "--configfile", recipe, directory=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("digraph") and done.stdout.rstrip().endswith("}")


def test_the_slurm_profile_chooses_the_7b_recipe(tmp_path: Path) -> None:
    done = snakemake("--profile", "slurm", "-n", "results/sft/done", directory=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "zgcm-7b.yaml" in said(done)
    assert "Train sft" in said(done)


def test_a_dry_run_leaves_only_the_resolved_recipe(tmp_path: Path) -> None:
    dry_run(directory=tmp_path)
    left = [path for path in tmp_path.rglob("*") if path.is_file() and ".snakemake" not in path.parts]
    assert [path.parent.relative_to(tmp_path) for path in left] == [Path("results/.recipes")]


def test_results_of_another_recipe_are_refused(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results/recipe.json").write_text('{"name": "mine", "recipe": "x.json"}')
    done = snakemake("-n", directory=tmp_path)
    assert done.returncode != 0
    assert "found: mine" in said(done) and "--directory" in said(done)


def test_a_wrong_key_stops_before_anything_runs(tmp_path: Path) -> None:
    overlay = tmp_path / "wrong.yaml"
    overlay.write_text("stages: {sft: {optimiser: {lr: 1}}}\n")
    done = snakemake("-n", "--configfile", RECIPES[0], overlay, directory=tmp_path)
    assert done.returncode != 0
    assert "stages.sft.optimiser" in said(done) and f"({overlay}:1)" in said(done)


def test_values_on_the_command_line_go_into_the_recipe(tmp_path: Path) -> None:
    done = snakemake("-n", "--config", "description=mine", directory=tmp_path)
    assert done.returncode == 0, done.stderr
    (resolved,) = (tmp_path / "results/.recipes").iterdir()
    assert load_recipe([resolved]).description == "mine"
