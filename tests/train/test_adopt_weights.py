"""`zgcm adopt STAGE`: what fits is taken over bit for bit, what does not is refused with every reason."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from tests.model import small
from tests.train.commands import done, losses, run
from tests.train.workspace import EOD, TOKENIZER, VOCABULARY, make, write_recipe
from zgcm.cli import verbs  # noqa: F401 - registers the verbs
from zgcm.cli.app import app
from zgcm.config.recipe import Recipe
from zgcm.errors import ZgcmError
from zgcm.io import read_json, write_json
from zgcm.layout import Layout
from zgcm.model.conversion import to_megatron
from zgcm.model.convert import read_megatron
from zgcm.model.export import export_stage
from zgcm.model.weights import open_weights
from zgcm.rundir.manifest import write_manifest
from zgcm.status import stage_states
from zgcm.tokens.agreement import disagreements
from zgcm.train.adopt import adopt_weights
from zgcm.train.inputs import gather

WORDS = {f"w{number}": number for number in range(1, VOCABULARY)}


def tokenizer(vocabulary: dict[str, int]) -> dict[str, Any]:
    return {"model": {"vocab": vocabulary}, "added_tokens": [{"content": "<|endoftext|>", "id": EOD}]}


def published(path: Path, **changes: Any) -> dict[str, Any]:
    """Stages of which the first is adopted, and a model of the small directory's shape."""
    stage = {"kind": "adopted", "format": "huggingface", "path": str(path), **changes}
    return {"model": small.MODEL.model_dump(), "stages": {"given": stage, "one": {"init": "given"}}}


def workspace(root: Path, path: Path, **changes: Any) -> tuple[Recipe, Layout]:
    recipe, layout = make(root / "results", **published(path, **changes))
    write_json(layout.tokenizer / "tokenizer.json", tokenizer(WORDS))
    for name in ("tokenizer_config.json", "chat_template.jinja"):
        write_json(layout.tokenizer / name, {})
    write_manifest(layout.tokenizer, **TOKENIZER)
    return recipe, layout


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.directory(tmp_path_factory.mktemp("hf") / "model")


def test_hugging_face_weights_become_a_finished_stage(tmp_path: Path, model: Path) -> None:
    recipe, layout = workspace(tmp_path, model)
    facts = adopt_weights(recipe, layout, "given")
    assert facts == read_json(layout.done("given"))
    assert str(tmp_path) not in layout.done("given").read_text()
    checkpoint = layout.root / facts["checkpoint"]
    back = dict(read_megatron(checkpoint, recipe.model, small.VOCABULARY, small.ROWS))
    for name, tensor in small.weights().items():
        used = small.VOCABULARY if tensor.shape[0] == small.ROWS else None
        assert torch.equal(back[name][:used], tensor[:used]), name
    expected = {
        "rotary_base": small.ROTARY_BASE,
        "context": small.CONTEXT,
        "optimizer": False,
        "iteration": 0,
    }
    assert {key: facts["adopted"][key] for key in expected} == expected
    origin = read_json(layout.runs("given") / facts["run_id"] / "run.json")["attempts"][0]["adopted"]
    assert origin["path"] == str(model)
    assert {"config.json", "model-00001-of-00001.safetensors"} == set(origin["files"])
    assert gather(recipe, layout, "one").digests["weights of given"] == facts["weights_digest"]
    assert [row["state"] for row in stage_states(recipe, layout)][-1] == "done"


def test_the_path_and_the_shards_of_the_files_change_nothing(tmp_path: Path, model: Path) -> None:
    recipe, layout = workspace(tmp_path, model)
    adopt_weights(recipe, layout, "given")
    before = layout.done("given").read_bytes()
    moved = tmp_path / "moved"
    shutil.copytree(model, moved)
    (moved / "README.md").write_text("another file")
    recipe, layout = workspace(tmp_path, moved)
    layout.done("given").unlink()
    adopt_weights(recipe, layout, "given")
    assert layout.done("given").read_bytes() == before
    assert len(list(layout.runs("given").iterdir())) == 1


def test_an_adopted_stage_can_be_exported(tmp_path: Path, model: Path) -> None:
    recipe, layout = workspace(tmp_path, model)
    digest = adopt_weights(recipe, layout, "given")["weights_digest"]
    facts = export_stage(recipe, layout, "given")
    assert (facts["dtype"], facts["rotary_base"]) == ("float32", small.ROTARY_BASE)
    assert facts["adopted"] == {"given": digest}
    assert digest in (layout.export("given") / "README.md").read_text()
    shapes = small.published.shapes(small.MODEL, facts["rows"])
    exported = open_weights(layout.export("given"), shapes)
    for name in ("model.embed_tokens.weight", "model.layers.3.self_attn.g_proj.weight"):
        ours, theirs = exported.read(name), small.weights()[name]
        assert torch.equal(ours[: small.VOCABULARY], theirs[: small.VOCABULARY])


def test_missing_weights_are_said_to_be_missing(tmp_path: Path) -> None:
    recipe, layout = workspace(tmp_path, tmp_path / "nowhere")
    (row,) = [row for row in stage_states(recipe, layout) if row["stage"] == "given"]
    assert (row["state"], row["kind"]) == ("waiting", "adopted")
    assert "not there yet" in row["detail"]
    with pytest.raises(ZgcmError, match=r"are not there.*nowhere.*stages\.given\.path"):
        adopt_weights(recipe, layout, "given")
    (tmp_path / "nowhere").mkdir()
    with pytest.raises(ZgcmError, match=r"Not a Hugging Face directory.*an empty directory"):
        adopt_weights(recipe, layout, "given")
    assert not layout.done("given").exists()


@pytest.mark.parametrize("name", ["__0_72.distcp", "metadata.json"])
@pytest.mark.parametrize("content", [b"", b"{}", None])
def test_a_checkpoint_that_is_not_whole_is_refused(
    tmp_path: Path, model: Path, name: str, content: bytes | None
) -> None:
    """The digest is that of the weights alone; the trainer would miss the other files hours later."""
    to_megatron(model, tmp_path / "megatron", None)
    file = tmp_path / "megatron/release" / name
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    recipe, layout = workspace(tmp_path, tmp_path / "megatron", format="megatron")
    with pytest.raises(ZgcmError, match=name):
        adopt_weights(recipe, layout, "given")
    assert not layout.done("given").exists()


def test_a_mix_without_its_shard_is_no_unknown_stage(tmp_path: Path) -> None:
    made = write_recipe(tmp_path / "recipe.yaml", mixes={"mine": {"prefixes": ["a", "b"]}})
    result = CliRunner().invoke(app, ["adopt", "mine", "-r", str(made), "--directory", str(tmp_path)])
    assert "shard by shard" in str(result.exception) and "00000, 00001" in str(result.exception)


def test_another_model_is_refused_with_every_difference(tmp_path: Path, model: Path) -> None:
    shutil.copytree(model, tmp_path / "model")
    config = small.config(small.MODEL.model_copy(update={"num_layers": 7, "sliding_window": 9}))
    write_json(tmp_path / "model/config.json", config)
    with pytest.raises(ZgcmError) as error:
        adopt_weights(*workspace(tmp_path, tmp_path / "model"), "given")
    text = error.value.paragraph()
    assert "sliding_window: found 9, model.sliding_window is 16" in text
    assert "num_hidden_layers: found 7, model.num_layers is 6" in text


def test_another_tokenizer_is_refused_and_a_larger_one_is_not(tmp_path: Path, model: Path) -> None:
    shutil.copytree(model, tmp_path / "model")
    write_json(tmp_path / "model/tokenizer.json", tokenizer({"w1": 1, "w3": 2, "new": 7}))
    with pytest.raises(ZgcmError, match=r"another tokenizer.*'new' is 7, in the recipe's nothing; 'w3' is 2"):
        adopt_weights(*workspace(tmp_path, tmp_path / "model"), "given")
    write_json(tmp_path / "model/tokenizer.json", tokenizer({"w1": 1, "w2": 2}))
    adopt_weights(*workspace(tmp_path, tmp_path / "model"), "given")
    write_json(tmp_path / "other.json", tokenizer({}))
    assert disagreements(tmp_path / "model/tokenizer.json", tmp_path / "other.json") == [
        "'w1' is 1, in the recipe's nothing",
        "'w2' is 2, in the recipe's nothing",
    ]


def test_a_pinned_digest_is_a_guard_and_no_identity(tmp_path: Path, model: Path) -> None:
    recipe, layout = workspace(tmp_path, model)
    facts = adopt_weights(recipe, layout, "given")
    pinned, _ = workspace(tmp_path, model, weights_digest=facts["weights_digest"])
    assert adopt_weights(pinned, layout, "given") == facts
    other, _ = workspace(tmp_path, model, weights_digest="other")
    states = {row["stage"]: row["changed"] for row in stage_states(other, layout)}
    assert states["given"] == ["weights_digest"]
    with pytest.raises(ZgcmError, match=r"not those that the recipe names.*expected: other"):
        adopt_weights(other, layout, "given")


def test_no_optimizer_state_no_continuation(tmp_path: Path, model: Path) -> None:
    from zgcm.model.conversion import to_megatron

    to_megatron(model, tmp_path / "megatron", small.VOCABULARY)
    changes = published(tmp_path / "megatron", format="megatron")
    changes["stages"]["one"]["continues"] = True
    recipe, layout = make(tmp_path / "results", **changes)
    with pytest.raises(ZgcmError, match=r"stages\.one\.continues: .*given has no optimizer state"):
        adopt_weights(recipe, layout, "given")


def test_links_to_a_checkpoint_that_moved_are_told(tmp_path: Path, model: Path) -> None:
    from zgcm.model.conversion import to_megatron

    to_megatron(model, tmp_path / "megatron", small.VOCABULARY)
    recipe, layout = workspace(tmp_path, tmp_path / "megatron", format="megatron")
    facts = adopt_weights(recipe, layout, "given")
    files = list((layout.root / facts["checkpoint"]).iterdir())
    assert all(file.is_symlink() for file in files if file.name != "manifest.json")
    assert not (tmp_path / "megatron/release/manifest.json").exists()
    assert gather(recipe, layout, "one").initial == facts
    (tmp_path / "megatron").rename(tmp_path / "elsewhere")
    with pytest.raises(ZgcmError, match=r"adopted weights is gone or has changed.*no such file"):
        gather(recipe, layout, "one")


def test_the_same_weights_in_both_formats_have_the_same_digest(tmp_path: Path, model: Path) -> None:
    from zgcm.model.conversion import to_megatron

    to_megatron(model, tmp_path / "megatron", small.VOCABULARY)
    digests = [
        adopt_weights(*workspace(tmp_path / kind, path, format=kind), "given")["weights_digest"]
        for kind, path in (("huggingface", model), ("megatron", tmp_path / "megatron"))
    ]
    assert digests[0] == digests[1]


@pytest.mark.slow
def test_continuing_an_adopted_checkpoint_is_continuing_the_stage(tmp_path: Path) -> None:
    """Optimizer state, iteration and consumed samples go on: the same losses and the same weights."""
    own, other = tmp_path / "own", tmp_path / "other"
    make(own / "results")
    write_recipe(own / "recipe.yaml")
    for stage in ("one", "two"):
        code, errors = run(own, stage)
        assert code == 0, errors
    path = own / "results" / json.loads(done(own, "one"))["checkpoint"]
    given = {"kind": "adopted", "format": "megatron", "path": str(path.parent)}
    changes = {"model": {}, "stages": {"given": given, "two": {"init": "given"}}}
    recipe, layout = make(other / "results", **changes)
    write_recipe(other / "recipe.yaml", **changes)
    facts = adopt_weights(recipe, layout, "given")["adopted"]
    assert (facts["iteration"], facts["consumed_samples"], facts["optimizer"]) == (8, 32, True)
    code, errors = run(other, "two")
    assert code == 0, errors
    assert losses(other, "two") == losses(own, "two")
    digests = [json.loads(done(root, "two"))["weights_digest"] for root in (own, other)]
    assert digests[0] == digests[1]
