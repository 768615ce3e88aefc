"""`zgcm check`, `id`, `schema`, `keys`: what they print, and how they fail."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from zgcm.cli import verbs  # noqa: F401 - registers the verbs
from zgcm.cli.app import app
from zgcm.config.load import load_recipe
from zgcm.errors import ZgcmError
from zgcm.identity import recipe_id

ROOT = Path(__file__).parents[2]
BIG = ["-r", "config/zgcm-7b.yaml"]


@pytest.fixture(autouse=True)
def _in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def zgcm(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_check_shows_what_a_recipe_amounts_to() -> None:
    lines = zgcm("check", *BIG).output.splitlines()
    assert lines[0].startswith("zgcm-7b: a valid recipe")
    assert "7.393B parameters: 6.124B in layer matrices" in lines[1]
    row = next(line for line in lines if line.startswith("midtrain_256k")).split("  ")
    cells = [cell.strip() for cell in row if cell.strip()]
    assert cells[:3] == ["midtrain_256k", "pretrain", "midtrain_64k"]
    assert cells[4:] == ["262,144", "14,345", "180.5B", "2e-05 cosine", "2 x 2 x 4 x 12, 4", "24 x 8 GPU"]
    assert any("assumed, never published: weights and quotas of pretrain_1t" in line for line in lines)
    mix = next(line for line in lines if line.startswith("pretrain_3p2t") and "shuffled" in line)
    assert "stage2_web 45%" in mix and mix.endswith("  pretrain_1t")


def test_check_as_data() -> None:
    facts = json.loads(zgcm("check", "--json", *BIG).output)
    assert facts["parameters"]["total"] == 7_392_735_232
    assert facts["stages"]["pretrain_3p2t"]["iterations"] == 254_314
    assert facts["stages"]["rl_code"]["evaluation_versions"] == [0, 51, 102, 153]
    assert len(facts["assumed_sources"]) == len(facts["sources"]) == 17


def test_check_says_what_a_mix_takes_and_leaves_out() -> None:
    lines = [line.split() for line in zgcm("check").output.splitlines()]
    rows = {words[0]: " ".join(words) for words in lines if words[1:2] in (["documents"], ["packed"])}
    assert rows["pretrain_3p2t"].endswith("pretrain_1t, near-duplicates (0.8), 1 evaluation file")
    assert rows["sft"].split()[3] == "all" and "%" not in rows["sft"]  # everything once, whatever the weights


def test_check_says_that_data_repeats(tmp_path: Path) -> None:
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text("mixes: {pretrain_1t: {tokens: 10_000}}")
    output = zgcm("check", "-r", "config/tiny.yaml", "-r", str(overlay)).output
    assert "pretrain_1t reads" in output and "data repeats" in output


def test_check_names_missing_files_and_what_to_do(tmp_path: Path) -> None:
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text(
        "sources: {mid_code: {lock: config/sources/none.lock}}\n"
        "mixes: {pretrain_1t: {decontaminate: {against: [exam.jsonl]}}}\n"
        "tokenizer: {path: no/tokenizer}\n"
        "stages: {rl_math: {reward: {sandbox: {url: 'http://127.0.0.1:1', token_file: no/token}}}}\n"
    )
    lines = zgcm("check", *BIG, "-r", str(overlay)).output.splitlines()
    assert [line.partition("; to do: ")[0] for line in lines if line.startswith("missing: ")] == [
        "missing: sources.mid_code.lock: config/sources/none.lock",
        "missing: tokenizer.path: no/tokenizer",
        "missing: mixes.pretrain_1t.decontaminate.against: exam.jsonl",
        "missing: stages.rl_math.prompts.train: data/rl/math/train.jsonl",
        "missing: stages.rl_math.prompts.valid: data/rl/math/valid.jsonl",
        "missing: stages.rl_math.reward.sandbox.token_file: no/token",
        "missing: stages.rl_code.prompts.train: data/rl/code/train.jsonl",
        "missing: stages.rl_code.prompts.valid: data/rl/code/valid.jsonl",
        "missing: stages.rl_code.prompts.assets: data/rl/code/tests",
        "missing: stages.rl_if.prompts.train: data/rl/if/train.jsonl",
        "missing: stages.rl_if.prompts.valid: data/rl/if/valid.jsonl",
    ]
    assert any(line.endswith("zgcm sources lock mid_code") for line in lines)
    assert any(line.startswith("mid_code") and "no lock" in line for line in lines)


def test_check_refuses_a_wrong_recipe(tmp_path: Path) -> None:
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text("model: {num_layer: 3}")
    result = zgcm("check", "-r", "config/tiny.yaml", "-r", str(overlay))
    assert result.exit_code == 1 and isinstance(result.exception, ZgcmError)
    assert "did you mean 'num_layers'?" in str(result.exception)


def test_id_shows_settings_and_parents() -> None:
    expected = recipe_id(load_recipe([Path("config/tiny.yaml")]), "train", "midtrain_64k")
    output = zgcm("id", "train", "midtrain_64k").output
    assert output.startswith(f"{expected}  train midtrain_64k, version ")
    assert "  train:midtrain_16k" in output and "  optimizer.lr" in output and "log_interval" not in output
    data = json.loads(zgcm("id", "train", "midtrain_64k", "--json").output)
    assert data["recipe_id"] == expected
    assert set(data["basis"]["built_on"]) == {
        "tokenizer",
        "train:midtrain_16k",
        "mix:midtrain_mix64",
        "mix:midtrain_mix16",
    }


def test_id_without_a_step_lists_every_step() -> None:
    ids = json.loads(zgcm("id", "--json").output)
    assert "tokenizer" in ids and "raw:demo_code" in ids and "export:rl_math" in ids
    assert all(len(value) == 12 for value in ids.values())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["tran", "sft"], "raw, clean, fingerprint, tokenizer, index, mix, train, export"),
        (["train", "stf"], "train pretrain_1t, pretrain_3p2t"),
        (["train"], "train pretrain_1t, pretrain_3p2t"),
        (["rl", "sft"], "rl rl_math"),
    ],
)
def test_id_of_a_step_that_does_not_exist(arguments: list[str], expected: str) -> None:
    result = zgcm("id", *arguments)
    assert isinstance(result.exception, ZgcmError)
    assert result.exception.expected.startswith(expected)


@pytest.mark.parametrize(("verb", "file"), [("schema", "config/schema.json"), ("keys", "docs/recipe.md")])
def test_generated_files(verb: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert zgcm(verb, "--check").output == f"{file}: up to date\n"
    monkeypatch.chdir(tmp_path)
    drifted = zgcm(verb, "--check")
    assert isinstance(drifted.exception, ZgcmError) and f"zgcm {verb}" in drifted.exception.hint
    assert not (tmp_path / file).exists(), "--check writes nothing"
    assert zgcm(verb).output == f"{file}: written\n"
    assert (tmp_path / file).read_text() == (ROOT / file).read_text()
    assert zgcm(verb).output == f"{file}: unchanged\n"
