"""Everything that is wrong is said before any process starts, and all at once."""

import json
import os

import pytest

from tests.train.workspace import make
from zgcm.errors import ZgcmError
from zgcm.identity import run_id
from zgcm.io import sha256_file
from zgcm.train.inputs import gather, shard_report
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
    assert message.count("\n  - ") == 5 and len(message.splitlines()) == 6


def test_a_stopped_run_refuses(root):
    from zgcm import identity
    from zgcm.train import stopped

    recipe, layout = make(root)
    run = identity.run_id(identity.recipe_id(recipe, "train", "one"), gather(recipe, layout, "one").digests)
    stopped.write(layout.runs("one") / run, ZgcmError("Two attempts made no checkpoint", found="exit code 1"))
    with pytest.raises(ZgcmError, match=r"refuses further attempts: Two attempts.*to do: .*rm "):
        train(recipe, layout, "one")


def test_rewritten_tokens_never_meet_an_old_index(tmp_path):
    """The index cache lies in the run directory, whose name holds the digests that the manifests state."""
    recipe, layout = make(tmp_path / "results")
    manifest, data = layout.mix("long") / "00000.json", layout.mix("long") / "00000_text_document.bin"
    before = gather(recipe, layout, "one").digests
    tokens = data.read_bytes()
    data.write_bytes(tokens[:-2])
    with pytest.raises(ZgcmError, match=r"not the one that its manifest describes.*bytes.*tokens of uint16"):
        check(recipe, layout, "long")
    data.write_bytes(tokens[2:] + tokens[:2])  # other tokens, the same size, the old manifest
    with pytest.raises(ZgcmError, match="rewritten after its manifest"):
        check(recipe, layout, "long")
    data.write_bytes(tokens)  # a copy of the same content is younger too, and welcome
    check(recipe, layout, "long")
    report = json.loads(manifest.read_text())
    data.write_bytes(tokens[2:] + tokens[:2])  # made again by the workflow: data first, then its manifest
    manifest.write_text(json.dumps({**report, "bin_sha256": sha256_file(data)}))
    os.utime(manifest, ns=(data.stat().st_mtime_ns + 1,) * 2)
    check(recipe, layout, "long")
    assert before == gather(recipe, layout, "one").digests
    inputs = [{"long/00000": sha256_file(manifest)}, {"long/00000": report["bin_sha256"]}]
    assert run_id("0", inputs[0]) != run_id("0", inputs[1])


@pytest.mark.parametrize("part", ["tokens", "targets", "cu_seqlens"])
def test_each_part_of_packed_sequences_is_checked(tmp_path, part):
    recipe, layout = make(tmp_path / "results")
    path = layout.mix("packed") / f"00000_{part}.bin"
    content = path.read_bytes()
    for damaged, message in ((content[:-4], "not the one"), (content[4:] + content[:4], "rewritten after")):
        path.write_bytes(damaged)
        with pytest.raises(ZgcmError, match=message):
            shard_report(layout, recipe.train_stages()["tuned"], "packed", "00000")
    path.unlink()
    with pytest.raises(ZgcmError, match="A mix shard is missing"):
        shard_report(layout, recipe.train_stages()["tuned"], "packed", "00000")


def check(recipe, layout, mix):
    shard_report(layout, recipe.train_stages()["mid"], mix, "00000")
