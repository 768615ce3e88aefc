"""`zgcm convert`: both directions outside a recipe, and what a config.json says of a model."""

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from tests.model import small
from zgcm.cli import verbs  # noqa: F401 - registers the verbs
from zgcm.cli.app import app
from zgcm.config.model import Model
from zgcm.errors import ZgcmError
from zgcm.io import read_json, write_json
from zgcm.model import published
from zgcm.model.conversion import to_huggingface, to_megatron
from zgcm.model.described import differences, model_of, rotary_base
from zgcm.model.megatron_files import find_checkpoint, read_facts
from zgcm.model.weights import read_safetensors, write_safetensors


def tensors(directory: Path) -> dict[str, torch.Tensor]:
    return dict(read_safetensors(directory, published.shapes(small.MODEL, small.ROWS)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_there_and_back_is_bit_for_bit_the_same(tmp_path: Path, dtype: torch.dtype) -> None:
    source = small.directory(tmp_path / "hf")
    if dtype != torch.float32:
        weights = iter(small.weights().items())
        write_safetensors(source, published.shapes(small.MODEL, small.ROWS), weights, dtype)
    to_megatron(source, tmp_path / "megatron", None)
    done = to_huggingface(tmp_path / "megatron", tmp_path / "again", source / "config.json", None, None)
    before, after = tensors(source), tensors(tmp_path / "again")
    assert all(after[name].dtype == dtype for name in after)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert done["parameters"] == sum(tensor.numel() for tensor in before.values())
    expected = {**read_json(source / "config.json"), "dtype": str(dtype).removeprefix("torch.")}
    assert read_json(tmp_path / "again/config.json") == expected


def test_the_vocabulary_is_trimmed_and_padded_as_asked(tmp_path: Path) -> None:
    source = small.directory(tmp_path / "hf")
    done = to_megatron(source, tmp_path / "megatron", small.VOCABULARY)
    assert (done["rows_before"], done["rows"]) == (small.ROWS, small.VOCABULARY)
    to_huggingface(tmp_path / "megatron", tmp_path / "again", source / "config.json", small.VOCABULARY, None)
    before, after = tensors(source), tensors(tmp_path / "again")
    for name in before:
        rows = small.VOCABULARY if before[name].shape[0] == small.ROWS else None
        assert torch.equal(before[name][:rows], after[name][:rows])
    assert not after["lm_head.weight"][small.VOCABULARY :].any()
    with pytest.raises(ZgcmError, match="vocabulary does not fit"):  # never silently: rows are missing
        to_huggingface(tmp_path / "megatron", tmp_path / "third", source / "config.json", None, None)
    with pytest.raises(ZgcmError, match=f"found {small.ROWS} rows, tokenizer.vocab_size is {small.ROWS + 1}"):
        to_megatron(source, tmp_path / "fourth", small.ROWS + 1)
    assert not (tmp_path / "third").exists()
    assert not (tmp_path / "fourth").exists()


def test_the_verb_knows_the_direction(tmp_path: Path) -> None:
    source = small.directory(tmp_path / "hf")
    (source / "tokenizer.json").write_text("{}")
    run = CliRunner().invoke
    there = run(app, ["convert", str(source), "-o", str(tmp_path / "megatron"), "--vocabulary", "250"])
    assert there.exit_code == 0
    assert "250 rows of vocabulary, 6 of padding trimmed" in there.output
    back = ["convert", str(tmp_path / "megatron"), "-o", str(tmp_path / "hf2")]
    assert "--config" in str(run(app, back).exception)
    back += ["--config", str(source / "config.json"), "--vocabulary", "250", "--json"]
    assert json.loads(run(app, back).output)["dtype"] == "float32"
    assert (tmp_path / "hf2/tokenizer.json").is_file()
    assert "exists already" in str(run(app, back).exception)


def test_a_configuration_describes_the_model_that_wrote_it() -> None:
    for model in (Model(), small.MODEL, small.MODEL.model_copy(update={"attention_output_gate": "none"})):
        config = published.config(
            model, vocabulary=512, rotary_base=77, context=64, end_of_text=0, dtype="bfloat16"
        )
        assert differences(config, model, 512) == []
        described = model_of(config, "here")
        unsaid = ("make_vocab_size_divisible_by", "export_vocab_size_divisible_by")
        assert described.model_dump(exclude=set(unsaid)) == model.model_dump(exclude=set(unsaid))
        assert rotary_base(config) == 77


def test_absent_layer_lists_follow_from_the_frequency() -> None:
    config = small.config()
    del config["layer_types"], config["attention_gate_layers"]
    assert differences(config, small.MODEL, small.VOCABULARY) == []
    nested = {"rope_theta": 3.0, "partial_rotary_factor": config.pop("partial_rotary_factor")}
    del config["rope_theta"]
    config["rope_parameters"] = {"rope_type": "default", **nested}
    assert differences(config, small.MODEL, small.VOCABULARY) == []
    assert rotary_base(config) == 3


def test_all_differences_are_listed_at_once() -> None:
    config = small.config() | {"num_key_value_heads": 4, "tie_word_embeddings": True, "vocab_size": 249}
    config |= {"partial_rotary_factor": 0.5, "rms_norm_eps": 1e-5, "attention_gate_layers": [True] * 6}
    found = differences(config, small.MODEL, small.VOCABULARY)
    keys = [line.partition(":")[0] for line in found]
    assert keys == [
        *("tie_word_embeddings", "num_key_value_heads", "rms_norm_eps", "partial_rotary_factor"),
        *("attention_gate_layers", "vocab_size"),
    ]
    assert "found 4, model.num_query_groups is 2" in found[1]
    assert "6 (counted from 1)" in found[4]


def test_checkpoints_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    with pytest.raises(ZgcmError, match="no such directory"):
        find_checkpoint(tmp_path / "nowhere")
    (tmp_path / "iter_0000005/mp_rank_00").mkdir(parents=True)
    with pytest.raises(ZgcmError, match=r"older format.*--ckpt-convert-format torch_dist"):
        find_checkpoint(tmp_path)
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("7")
    with pytest.raises(ZgcmError, match=r"names a checkpoint that is not there.*iter_0000007"):
        find_checkpoint(tmp_path)
    (tmp_path / "hf").mkdir()
    write_json(tmp_path / "hf/config.json", small.config() | {"model_type": "llama"})
    with pytest.raises(ZgcmError, match="model_type: found llama"):
        to_megatron(tmp_path / "hf", tmp_path / "out", None)


def test_facts_of_a_converted_checkpoint(tmp_path: Path) -> None:
    to_megatron(small.directory(tmp_path / "hf"), tmp_path / "megatron", None)
    found = find_checkpoint(tmp_path / "megatron")
    facts = read_facts(found)
    assert found.name == "release"
    assert (facts.iteration, facts.optimizer, facts.dtype) == (0, False, "float32")
    assert facts.rotary_base is None
