"""Everything that is wrong is said before any process starts, and all at once."""

import json

import pytest

from tests.train.workspace import make
from zgcm.errors import ZgcmError
from zgcm.train.inputs import gather
from zgcm.train.run import train


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("inputs") / "results"


def test_everything_in_place(root):
    inputs = gather(*make(root), "one")
    assert sorted(inputs.digests) == ["first/00000", "first/00001", "tokenizer"]
    assert inputs.prefixes == [str(root / f"mixes/first/0000{shard}_text_document") for shard in (0, 1)]
    assert inputs.initial is None


def test_a_changed_shard_is_another_input(root):
    recipe, layout = make(root)
    before = gather(recipe, layout, "one").digests
    manifest = layout.mix("first") / "00001.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "bin_sha256": "other"}))
    after = gather(recipe, layout, "one").digests
    assert [key for key in before if before[key] != after[key]] == ["first/00001"]


@pytest.mark.parametrize(
    ("stage", "changes", "message"),
    [
        ("one", {"engine": "transformer_engine"}, "Transformer Engine is not installed here"),
        ("one", {"engine": "transformer_engine", "fp8": {}}, "asks for engine: transformer_engine and FP8"),
        ("one", {"global_batch_size": 200}, r"too small for one batch.*takes 6400 \+ 1"),
        ("one", {"data_split": "90,10,0"}, "no validation share"),
        ("mid", {"eval_iters": 2}, "eval_iters needs a share"),
        ("two", {}, r"stage before has not finished.*zgcm train one"),
        ("tuned", {"mix": {"other": 1}}, "Packed conversations come from one mix"),
    ],
)
def test_refusals(root, stage, changes, message):
    other = {"other": {"kind": "packed", "sources": {"talk": 1}, "sequence_length": 64}}
    recipe, layout = make(root, stages={stage: changes}, mixes=other)
    with pytest.raises(ZgcmError, match=f"(?s){message}"):
        train(recipe, layout, stage)
    assert not layout.runs(stage).exists()


def test_all_problems_at_once(tmp_path):
    recipe, layout = make(tmp_path / "results", stages={"two": {"engine": "transformer_engine"}})
    (layout.tokenizer / "manifest.json").unlink()
    (layout.mix("second") / "00000_text_document.bin").unlink()
    (layout.mix("second") / "00001.json").unlink()
    with pytest.raises(ZgcmError) as caught:
        train(recipe, layout, "two")
    message = str(caught.value)
    for part in (
        "Transformer Engine",
        "tokenizer is missing",
        "00000_text_document.bin",
        "00001.json",
        "has not finished",
    ):
        assert part in message
    assert message.count("\n  - ") == 5


def test_a_stopped_run_refuses(root):
    from zgcm import identity
    from zgcm.train import stopped

    recipe, layout = make(root)
    run = identity.run_id(identity.recipe_id(recipe, "train", "one"), gather(recipe, layout, "one").digests)
    stopped.write(layout.runs("one") / run, ZgcmError("Two attempts made no checkpoint", found="exit code 1"))
    with pytest.raises(ZgcmError, match=r"refuses further attempts: Two attempts.*to do: .*rm "):
        train(recipe, layout, "one")
