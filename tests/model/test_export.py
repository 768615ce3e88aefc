"""`zgcm export`: the directory, its refusals, and loading it where zgcm does not exist."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import zgcm.cli.export  # noqa: F401 - registers the verb
from tests.model import small
from zgcm import identity
from zgcm.cli.app import app
from zgcm.config.load import validate_recipe
from zgcm.config.model import TrainedTokenizer
from zgcm.config.recipe import Recipe
from zgcm.errors import ZgcmError
from zgcm.io import read_json, write_json
from zgcm.layout import Layout
from zgcm.model import export as export_module
from zgcm.model import published
from zgcm.model.convert import write_megatron
from zgcm.model.export import export_stage
from zgcm.model.weights import read_safetensors
from zgcm.rundir.manifest import verify_manifest, write_manifest
from zgcm.tokens.tokenizer import train_tokenizer

TEXT = ["the sum of 47 and 38 is 85; adding seven and eight gives fifteen, carry one " * 3] * 5
VOCABULARY = 300


def recipe(**stage: Any) -> Recipe:
    return validate_recipe(plain(**stage), where="tests")


def plain(**stage: Any) -> dict[str, Any]:
    model = small.MODEL.model_dump(exclude_defaults=True)
    common = {"kind": "pretrain", "micro_batch_size": 1, "global_batch_size": 1, "optimizer": {"lr": 0.1}}
    short = {"max_tokens": 64, "max_new_tokens": 32}
    return {
        "name": "small",
        "description": "A model for tests",
        "model": model,
        "tokenizer": {"kind": "train", "vocab_size": VOCABULARY, "sources": ["text"]},
        "sources": {
            "text": {
                **{"kind": "demo", "content": "code", "stage": "pretrain", "category": "code"},
                "documents": 9,
            }
        },
        "mixes": {"all": {"sources": {"text": 1}}},
        "stages": {
            "one": {**common, "mix": {"all": 1}, "seq_length": 256, "schedule": {"train_iters": 2}},
            "two": {
                **common,
                **{"mix": {"all": 1}, "init": "one", "seq_length": 64, "rotary_base": small.ROTARY_BASE},
                **{"bf16": False, "schedule": {"train_iters": 2}},
                **stage,
            },
            "polish": {
                **{"kind": "rl", "init": "two", "domain": "math", "epochs": 1, "steps": 1},
                **{"batch_size": 1, "prompts": {"kind": "demo", "train": 8, "valid": 8}},
                **{"max_prompt_tokens": 32, "rollout": {"max_model_len": 64, "sampling": short}},
                **{"evaluation": {"sampling": short}, "learner": {"minibatches": 1, "attention": "sdpa"}},
            },
        },
    }


def finish(recipe: Recipe, layout: Layout, stage: str, **facts: Any) -> None:
    step = "rl" if stage == "polish" else "train"
    basis = identity.basis(recipe, step, stage)
    done = {"stage": stage, "recipe_id": identity.digest(basis), "run_id": "feedc0ffee12", "basis": basis}
    write_json(layout.done(stage), done | facts)


@pytest.fixture
def finished(tmp_path: Path) -> tuple[Recipe, Layout]:
    """Results in which stage `two` is finished; its checkpoint holds the small model's weights."""
    made, layout = recipe(), Layout(tmp_path / "results")
    facts = train_tokenizer(
        TrainedTokenizer(kind="train", vocab_size=VOCABULARY, sources=["text"]), TEXT, layout.tokenizer
    )
    write_manifest(layout.tokenizer, **facts)
    rows = published.padded_vocabulary(made.model, VOCABULARY)
    source = small.directory(tmp_path / "source", rows=rows)
    checkpoint = layout.runs("two") / "feedc0ffee12/checkpoints/iter_0000002"
    write_megatron(source, tmp_path / "megatron", made.model, VOCABULARY)
    checkpoint.parent.mkdir(parents=True)
    (tmp_path / "megatron/release").rename(checkpoint)
    write_manifest(checkpoint, weights_digest="abc")
    relative = str(checkpoint.relative_to(layout.root))
    finish(made, layout, "two", checkpoint=relative, weights_digest="abc")
    return made, layout


def test_the_directory_has_the_published_files_and_keys(finished: tuple[Recipe, Layout]) -> None:
    made, layout = finished
    manifest = export_stage(made, layout, "two")
    directory = layout.export("two")
    assert sorted(path.name for path in directory.iterdir()) == [
        "README.md",
        "chat_template.jinja",
        "config.json",
        "configuration_zgcm.py",
        "generation_config.json",
        "manifest.json",
        "model-00001-of-00001.safetensors",
        "model.safetensors.index.json",
        "modeling_zgcm.py",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    assert verify_manifest(directory) == manifest
    config = read_json(directory / "config.json")
    assert config["rope_theta"] == small.ROTARY_BASE  # the stage's own
    assert config["max_position_embeddings"] == 256  # the longest of the stages that led to it
    assert (config["vocab_size"], config["dtype"]) == (384, "float32")
    assert config["eos_token_id"] == config["pad_token_id"] == manifest_of(layout.tokenizer)["end_id"]
    shapes = published.shapes(made.model, 384)
    exported = dict(read_safetensors(directory, shapes))
    for name, tensor in small.weights(rows=384).items():
        used = VOCABULARY if tensor.shape[0] == 384 else None
        assert torch.equal(exported[name][:used], tensor[:used]), name
    assert manifest["parameters"] == published.parameters(made.model, 384)
    assert not (layout.root / "export/.two").exists()


def manifest_of(directory: Path) -> dict[str, Any]:
    return read_json(directory / "manifest.json")


def test_the_same_weights_give_the_same_bytes(finished: tuple[Recipe, Layout]) -> None:
    made, layout = finished
    first = export_stage(made, layout, "two")
    (layout.export("two") / "left-over.txt").write_text("from an older export")
    assert export_stage(made, layout, "two") == first


LOAD = """
import sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
path = sys.argv[1]
model = AutoModelForCausalLM.from_pretrained(path, trust_remote_code=True, dtype="auto").eval()
tokenizer = AutoTokenizer.from_pretrained(path)
ids = tokenizer.apply_chat_template(
    [{"role": "user", "content": "47 and 38"}], add_generation_prompt=True, enable_thinking=True,
    return_tensors="pt", return_dict=True,
)
made = model.generate(**ids, max_new_tokens=40, do_sample=False, eos_token_id=None)
assert not [name for name in sys.modules if name == "zgcm" or name.startswith("zgcm.")], "zgcm was imported"
assert type(model).__module__.startswith("transformers_modules."), type(model)
torch.save((made, model(made).logits.detach()), sys.argv[2])
"""


@pytest.mark.slow
def test_it_loads_with_remote_code_where_zgcm_is_not_imported(
    finished: tuple[Recipe, Layout], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, layout = finished
    export_stage(made, layout, "two")
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    command = [sys.executable, "-c", LOAD, str(layout.export("two")), str(tmp_path / "out.pt")]
    subprocess.run(command, check=True, cwd=tmp_path, capture_output=True, text=True)
    ids, logits = torch.load(tmp_path / "out.pt")
    assert ids.shape[1] > 2 * small.WINDOW
    network = small.network(rows=384)
    used = VOCABULARY
    with torch.no_grad():
        assert (network(ids).logits - logits)[..., :used].abs().max() < 1e-5


def test_an_rl_stage_is_published_from_its_policy(finished: tuple[Recipe, Layout]) -> None:
    made, layout = finished
    export_stage(made, layout, "two")
    policy = layout.runs("polish") / "0123/policies/version_001"
    shutil.copytree(layout.export("two"), policy)
    digest = write_manifest(policy)
    relative = str(policy.relative_to(layout.root))
    finish(made, layout, "polish", policy=relative, weights_digest=digest)
    export_stage(made, layout, "polish")
    before, after = manifest_of(layout.export("two"))["files"], manifest_of(layout.export("polish"))["files"]
    assert {name for name in before if before[name] != after[name]} == {"README.md"}
    assert "GRPO" in (layout.export("polish") / "README.md").read_text()


def test_a_deleted_checkpoint_is_named_with_the_way_back(finished: tuple[Recipe, Layout]) -> None:
    made, layout = finished
    checkpoint = layout.root / read_json(layout.done("two"))["checkpoint"]
    shutil.rmtree(checkpoint)
    with pytest.raises(ZgcmError) as caught:
        export_stage(made, layout, "two")
    message = caught.value.paragraph()
    for part in (str(checkpoint), "deleted", "abc", f"rm {layout.done('two')}", "put a copy"):
        assert part in message
    assert not layout.export("two").exists()


def test_what_the_export_cannot_trust_is_refused(finished: tuple[Recipe, Layout]) -> None:
    made, layout = finished
    with pytest.raises(ZgcmError, match=r"No such stage.*one, two, polish"):
        export_stage(made, layout, "three")
    with pytest.raises(ZgcmError, match=r"Stage one is not finished.*zgcm train one"):
        export_stage(made, layout, "one")
    with pytest.raises(ZgcmError, match=r"another recipe.*settings\.rotary_base.*zgcm train two"):
        export_stage(recipe(rotary_base=777), layout, "two")
    checkpoint = layout.root / read_json(layout.done("two"))["checkpoint"]
    write_manifest(checkpoint, weights_digest="other")
    with pytest.raises(ZgcmError, match="not the one with which stage two ended"):
        export_stage(made, layout, "two")
    write_manifest(checkpoint, weights_digest="abc")
    data = checkpoint / "__0_0.distcp"
    data.write_bytes(data.read_bytes()[:-1])
    with pytest.raises(ZgcmError, match="Damaged file"):
        export_stage(made, layout, "two")


def test_a_failing_export_leaves_nothing_and_keeps_the_old_one(
    finished: tuple[Recipe, Layout], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, layout = finished
    first = export_stage(made, layout, "two")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(export_module, "write_files", full)
    with pytest.raises(ZgcmError, match="disk is full"):
        export_stage(made, layout, "two")
    assert verify_manifest(layout.export("two")) == first
    assert list(layout.export("two").parent.rglob("*.safetensors")) == [
        layout.export("two") / "model-00001-of-00001.safetensors"
    ]


def test_the_verb_prints_one_line_or_json(finished: tuple[Recipe, Layout], tmp_path: Path) -> None:
    _, layout = finished
    path = tmp_path / "recipe.yaml"
    path.write_text(json.dumps(plain()))
    options = ["export", "two", "-r", str(path), "--directory", str(layout.root.parent)]
    line = CliRunner().invoke(app, options, catch_exceptions=False)
    assert line.exit_code == 0
    assert "parameters in float32" in line.stdout
    text = CliRunner().invoke(app, [*options, "--json"], catch_exceptions=False)
    assert json.loads(text.stdout) == manifest_of(layout.export("two"))
