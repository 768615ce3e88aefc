"""The verbs through the command line: one line or JSON out, names that the recipe lacks refused."""

import json

import pytest
import yaml
from typer.testing import CliRunner

from zgcm.cli import tokens as verbs
from zgcm.errors import ZgcmError


@pytest.fixture
def call(workspace, tmp_path):
    recipe, layout = workspace
    file = tmp_path / "recipe.yaml"
    file.write_text(yaml.safe_dump(recipe.model_dump(mode="json", exclude_none=True), sort_keys=False))

    def run(*arguments: str) -> str:
        options = ["--recipe", str(file), "--directory", str(layout.root.parent)]
        result = CliRunner().invoke(verbs.app, [*arguments, *options], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    return run


def test_the_chain_by_hand(call):
    assert call("tokenizer").startswith("tokenizer (train): 400 tokens, end <|endoftext|> = 393")
    assert "64 documents" in call("index", "talk", "00000")
    assert call("dedup", "sft") == "mix sft leaves out: nothing\n"
    assert json.loads(call("mix", "sft", "--json"))["documents"] == 64
    assert "64 conversations in" in call("pack", "sft", "00000")
    assert json.loads(call("pack-summary", "sft", "--json"))["conversations"] == 64
    call("dedup", "text_mix")
    assert "tokens (prose " in call("mix", "text_mix")
    assert "text_mix/00001: " in call("gather", "text_mix", "00001")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["index", "prosa", "00000"], "no such source.*found: prosa.*expected: prose, code, talk"),
        (["index", "prose", "00009"], "no such shard.*expected: 00000, 00001"),
        (["mix", "nothing"], "no such mix.*text_mix, sft"),
        (["gather", "sft", "00000"], "no such mix.*found: sft.*expected: text_mix"),
        (["pack", "sft", "7"], "no such shard.*found: 7"),
    ],
)
def test_unknown_names(call, arguments, message):
    with pytest.raises(ZgcmError, match=message):
        call(*arguments)


@pytest.mark.parametrize(
    ("arguments", "missing", "message"),
    [
        (["gather", "text_mix", "00000"], "tokenizer/manifest.json", "zgcm tokenizer"),
        (["mix", "text_mix"], "tokenizer/manifest.json", "zgcm tokenizer"),
        (["pack", "sft", "00000"], "tokenizer/manifest.json", "zgcm tokenizer"),
        (["tokenizer"], "corpus/prose/00001.jsonl.zst", "zgcm clean prose 00001"),
        (["index", "prose", "00001"], "corpus/prose/00001.jsonl.zst", "zgcm clean prose 00001"),
    ],
)
def test_what_is_missing_is_named_with_the_verb_that_makes_it(call, workspace, arguments, missing, message):
    call("dedup", "text_mix")
    (workspace[1].root / missing).unlink()
    with pytest.raises(ZgcmError, match=message):
        call(*arguments)
