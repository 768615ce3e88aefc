"""`--validate-only` finds what would stop a stage, all of it at once, and starts and writes nothing."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.train.workspace import RECIPE, make, write_recipe
from zgcm import identity
from zgcm.cli import verbs  # noqa: F401
from zgcm.cli.app import app
from zgcm.config.load import load_with_contradictions
from zgcm.config.recipe import deep_merge
from zgcm.errors import ZgcmError
from zgcm.io import read_json, write_json
from zgcm.layout import Layout
from zgcm.rundir import owner
from zgcm.train import stopped, validate
from zgcm.train.inputs import gather


def findings(recipe, layout, stage, contradictions=()):
    report = validate.validate(recipe, list(contradictions), layout, stage)
    return [(found["check"], found["problem"]) for found in report["problems"]]


def only(found, check, *parts):
    """One problem, of that check, with these words."""
    assert len(found) == 1, found
    assert found[0][0] == check
    assert all(part in found[0][1] for part in parts), found[0][1]


def listing(root: Path) -> list[Path]:
    return sorted(root.rglob("*"))


@pytest.fixture
def ready(tmp_path):
    return make(tmp_path / "results")


def test_nothing_is_wrong_and_nothing_is_written(ready):
    recipe, layout = ready
    before = listing(layout.root)
    report = validate.validate(recipe, [], layout, "one")
    assert report["problems"] == []
    assert (report["iterations"], report["shards"], report["checkpoints"]) == (8, 2, 3)
    assert report["not_checked"] == []
    assert listing(layout.root) == before


def test_everything_at_once(tmp_path):
    """A recipe that contradicts itself, missing data, an engine that is not here, a full disk."""
    changes = {
        "stages": {
            "two": {
                **{"engine": "transformer_engine", "attention_backend": "flash", "fp8": {}},
                **{"parallel": {"tensor": 3}, "resources": {"processes_per_node": 2}},
            }
        }
    }
    _, layout = make(tmp_path / "results")
    for name in ("00000_text_document.bin", "00001.json"):
        (layout.mix("second") / name).unlink()
    write_json(layout.stamp, {"name": "other", "recipe": "other.yaml"})
    recipe, contradictions = load_with_contradictions([write_recipe(tmp_path / "recipe.yaml", **changes)])
    found = findings(recipe, layout, "two", contradictions)
    text = "\n".join(f"{check}: {problem}" for check, problem in found)
    for part in (
        "recipe: stages.two.parallel.tensor: 3 does not divide model.num_attention_heads 4",
        "recipe: stages.two.resources: 2 processes are not a multiple of tensor x pipeline x context = 3",
        "results: These results belong to another recipe",
        "machine: stages.two.attention_backend: flash needs FlashAttention",
        "inputs: stages.two asks for engine: transformer_engine and FP8",
        "inputs: stages.two.parallel.tensor: Muon needs whole query groups",
        "00000_text_document.bin",
        "00001.json",
        "The stage before has not finished",
    ):
        assert part in text, part
    assert "recipe.yaml:" in next(problem for check, problem in found if check == "recipe")  # file and line


def test_a_misspelt_key_or_name_is_said_alone(tmp_path):
    path = write_recipe(tmp_path / "recipe.yaml", stages={"two": {"init": "on"}})
    with pytest.raises(ZgcmError, match="unknown earlier stage 'on'"):
        load_with_contradictions([path])


def test_many_missing_shards_are_one_line(tmp_path):
    recipe, _ = make(tmp_path / "results", mixes={"first": {"shards": 40}})
    found = findings(recipe, Layout(tmp_path / "elsewhere"), "one")
    assert sum("Shards of mix first are missing" in problem for _, problem in found) == 1
    assert any("00000.json and 39 more, to 00039" in problem for _, problem in found)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"seed": 7}, ["planned with other settings", "seed 7 (recipe: 0)"]),
        ({"order": "shuffled"}, ["order shuffled (recipe: curriculum)"]),
        ({"sources": {"text": {"weight": 0.5}}}, ["weights {'text': 0.5} (recipe: {'text': 1.0})"]),
        ({"shards": {"00000": {}}}, ["shards ['00000'] (recipe: ['00000', '00001'])"]),
    ],
)
def test_a_stale_mix(ready, changed, words):
    recipe, layout = ready
    plan = {
        **{"order": "curriculum", "seed": 0, "quota_tokens": None, "sources": {"text": {"weight": 1.0}}},
        "shards": {"00000": {}, "00001": {}},
    }
    write_json(layout.plan("first"), plan)
    assert findings(recipe, layout, "one") == []
    write_json(layout.plan("first"), {**plan, **changed})
    only(findings(recipe, layout, "one"), "inputs", *words, "zgcm mix first")


def test_a_shard_of_another_plan_or_tokenizer(ready):
    recipe, layout = ready
    path = layout.mix("first") / "00001.json"
    report = read_json(path)
    write_json(path, {**report, "tokenizer": "another"})
    only(findings(recipe, layout, "one"), "inputs", "made with another tokenizer", "00001.json")
    write_json(path, report)
    write_json(
        layout.plan("first"),
        {
            **{"order": "curriculum", "seed": 0, "quota_tokens": None, "sources": {"text": {"weight": 1.0}}},
            "shards": {"00000": {}, "00001": {"tokens": 5}},
        },
    )
    only(findings(recipe, layout, "one"), "inputs", "not the one that its mix plans", "expected: 5")


def test_packed_data_that_is_not_the_promised_one(ready):
    recipe, layout = ready
    dataset = read_json(layout.dataset("packed"))
    guards = {"expected_train_tokens": 41_000, "expected_train_records": 7}
    changed, _ = make(layout.root, stages={"tuned": {**guards, "init": None}})
    found = findings(changed, layout, "tuned")
    only(found, "length", f"found: {dataset['train_tokens']}, 150", "expected: 41000", "7 (stages.tuned")
    write_json(layout.dataset("packed"), {**dataset, "train_tokens": dataset["train_tokens"] + 1})
    recipe, _ = recipe, layout
    unfinished = [
        problem for check, problem in findings(recipe, layout, "tuned") if "packed counts" in problem
    ]
    assert len(unfinished) == 1


def test_a_stage_before_that_belongs_to_another_recipe(ready):
    recipe, layout = ready
    basis = identity.basis(recipe, "train", "one")
    write_json(layout.done("one"), {"basis": basis, "checkpoint": "one/runs/x", "weights_digest": "0"})
    gone = findings(recipe, layout, "two")
    only(gone, "inputs", "checkpoint of the stage before is gone")
    changed, _ = make(layout.root, stages={"one": {"optimizer": {"lr": 0.02}}})
    found = [problem for _, problem in findings(changed, layout, "two")]
    assert any("the recipe has changed since" in line and "optimizer.lr" in line for line in found)


def test_a_run_that_was_stopped_or_lives(ready):
    recipe, layout = ready
    run = layout.runs("one") / identity.run_id(
        identity.recipe_id(recipe, "train", "one"), gather(recipe, layout, "one").digests
    )
    stopped.write(run, ZgcmError("Two attempts made no checkpoint"))
    only(findings(recipe, layout, "one"), "run", "refuses further attempts")
    (run / stopped.NAME).unlink()
    with owner.owning(run):
        only(findings(recipe, layout, "one"), "run", "Another live process writes this run")
    assert findings(recipe, layout, "one") == []


def test_disk_space(ready, monkeypatch):
    """Three checkpoints at once: two kept, one being written. What the run holds is not needed again."""
    recipe, layout = ready
    need = validate.disk_need(recipe, layout, "one", None)
    size = need["checkpoint_bytes"]
    assert need["needed_bytes"] == 3 * size
    run = layout.runs("one") / "x"
    (run / "checkpoints/iter_0000003").mkdir(parents=True)
    (run / "checkpoints/iter_0000003/data").write_bytes(b"0" * (size // 2))
    assert validate.disk_need(recipe, layout, "one", run)["needed_bytes"] == 3 * size - size // 2
    kept, _ = make(layout.root, stages={"one": {"checkpoints": {"save_interval": 1, "keep_every": 2}}})
    assert validate.disk_need(kept, layout, "one", None)["checkpoints"] == 6  # 2, 4, 6, 7, 8, and one written
    usage = validate.shutil.disk_usage(layout.root)
    monkeypatch.setattr(validate.shutil, "disk_usage", lambda path: usage._replace(free=3 * size - 1))
    only(
        findings(recipe, layout, "one"), "disk", f"{3 * size - 1:,} bytes free", f"3 checkpoints of {size:,}"
    )


def test_results_that_cannot_be_written(ready, monkeypatch):
    recipe, layout = ready
    monkeypatch.setattr(validate.os, "access", lambda path, mode: False)
    only(findings(recipe, layout, "one"), "results", "refuses a file or directory")


@pytest.mark.parametrize(
    ("capability", "gpus", "words"),
    [((9, 0), 8, []), ((8, 0), 8, ["needs compute capability 8.9"]), ((9, 0), 4, ["this node has 4 GPUs"])],
)
def test_gpus_of_this_machine(ready, monkeypatch, capability, gpus, words):
    import torch

    recipe, _ = make(
        ready[1].root,
        stages={
            "one": {
                **{"engine": "transformer_engine", "attention_backend": "flash", "fp8": {}},
                **{"resources": {"gpus_per_node": 8, "processes_per_node": 8}, "global_batch_size": 16},
            }
        },
    )
    monkeypatch.setattr(validate, "is_installed", lambda *modules: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    problems, not_checked = validate.machine_problems(recipe.train_stages()["one"], "one")
    assert not_checked == []
    assert len(problems) == len(words)
    assert all(word in problem for word, problem in zip(words, problems, strict=True))


def test_the_verb(tmp_path):
    make(tmp_path / "results")
    recipe = write_recipe(tmp_path / "recipe.yaml")
    where = ["-r", str(recipe), "--directory", str(tmp_path)]
    good = CliRunner().invoke(app, ["train", "one", "--validate-only", *where])
    assert (good.exit_code, good.stdout.splitlines()[0]) == (0, "one: ready to train")
    bad = CliRunner().invoke(app, ["train", "two", "--validate-only", "--json", *where])
    assert bad.exit_code == 1
    assert [found["check"] for found in json.loads(bad.stdout)["problems"]] == ["inputs"]
    both = CliRunner().invoke(app, ["train", "two", "--validate-only", "--print-argv", *where])
    assert isinstance(both.exception, ZgcmError)


def test_the_recipe_loads_as_ever_where_contradictions_are_not_asked_for(tmp_path):
    from zgcm.config.load import load_recipe

    changes = {"stages": {"one": {"parallel": {"tensor": 3}}}}
    path = tmp_path / "recipe.yaml"
    path.write_text(json.dumps(deep_merge(RECIPE, changes)))
    with pytest.raises(ZgcmError, match="does not divide"):
        load_recipe([path])
    recipe, contradictions = load_with_contradictions([path])
    assert recipe.train_stages()["one"].parallel.tensor == 3
    assert any("does not divide" in line for line in contradictions)
