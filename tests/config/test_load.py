"""Wrong recipes: the message names the key, what was found, what is allowed, the line and the remedy."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zgcm.config.load import load_recipe, read_mapping, validate_recipe
from zgcm.config.recipe import Recipe
from zgcm.errors import ZgcmError

Refused = Callable[..., str]
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["tiny", "zgcm-7b"])
def test_committed_recipes_load(name: str) -> None:
    assert load_recipe([ROOT / f"config/{name}.yaml"]).name == name


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        # unknown keys: near in the section, at home in another section, of another kind
        ("model: {num_layer: 3}", ["model.num_layer: unknown key (found 3)", "did you mean 'num_layers'?"]),
        ("stages: {sft: {lr: 0.1}}", ["stages.sft.lr: unknown key", "did you mean stages.sft.optimizer.lr?"]),
        ("stages: {sft: {tensor: 2}}", ["did you mean stages.sft.parallel.tensor?"]),
        ("model: {rotary_base: 1}", ["did you mean stages.<name>.rotary_base?"]),
        ("sources: {demo_code: {revision: a}}", ["sources.demo_code.revision", "it belongs to kind: hub"]),
        (
            "stages: {rl_math: {checkpoints: {save_interval: 2}}}",
            ["stages.rl_math.checkpoints.save_interval", "it belongs to kind: pretrain or sft; allowed here"],
        ),
        (
            "stages: {sft: {zzz: 1}}",
            ["stages.sft.zzz: unknown key (found 1); allowed here: attention_backend,"],
        ),
        ("stage_defaults: {pretrain: {enginee: local}}", ["stage_defaults.pretrain.enginee", "'engine'?"]),
        (
            "stage_defaults: {pretrian: {engine: local}}",
            ["stage_defaults.pretrian", "did you mean 'pretrain'?"],
        ),
        ("1: 2", ["a key is text; found 1; put it in quotes"]),
        # wrong values
        (
            "stages: {sft: {optimizer: {kind: adamw}}}",
            ["stages.sft.optimizer.kind: found 'adamw'; allowed: muon, adam; did you mean 'adam'?"],
        ),
        ("stages: {sft: {kind: stf}}", ["kind 'stf' is unknown; allowed: 'pretrain', 'sft', 'rl'", "'sft'?"]),
        (
            "stages: {extra: {seq_length: 8}}",
            ["stages.extra: the key `kind` is required: pretrain, sft, rl or adopted (/"],
        ),
        # an overlay's name misspelt: a section of its own, without what the meant one has
        ("stages: {pretrain_1tt: {seed: 3}}", ["`kind` is required", "did you mean 'pretrain_1t'?"]),
        ("sources: {demo_cod: {shards: 3}}", ["`kind` is required", "did you mean 'demo_code'?"]),
        ("mixes: {pretrain_1tt: {tokens: 10}}", ["`sources` or `prefixes`; did you mean 'pretrain_1t'?"]),
        ("stages: {rl_math: {prompts: {kind: null}}}", ["stages.rl_math.prompts"]),
        (
            "stages: {rl_math: {prompts: {kind: files, trian: a}}}",
            [
                "did you mean 'train'?",
                "prompts.valid: expected text; found 128; kind: demo takes that; where an",
            ],
        ),
        (
            "tokenizer: {kind: import, path: 3}",
            ['tokenizer.path: expected text; found 3; put it in quotes if it is text: "3"'],
        ),
        ("stages: {Sft: {kind: sft}}", ["stages.Sft: a name is lower-case letters, digits and underscores"]),
        ("model: {num_layers: 0}", ["model.num_layers: input should be greater than 0; found 0"]),
        (
            "stages: {sft: {optimizer: {lr: .nan}}}",
            ["stages.sft.optimizer.lr: input should be a finite number"],
        ),
        ("stages: {sft: {optimizer: {lr: .inf}}}", ["a finite number"]),
        ("tokenizer: {kind: import}", ["tokenizer.path: this key is required"]),
        # wrong types, and what YAML 1.1 makes of harmless looks
        (
            "stages: {sft: {optimizer: {lr: 2e-4}}}",
            [
                "stages.sft.optimizer.lr: expected a number; found '2e-4'",
                "YAML 1.1 takes it for text; write 0.0002",
            ],
        ),
        ('model: {num_layers: "6"}', ["expected a whole number; found '6'; it is in quotes; write 6"]),
        ("model: {num_layers: 1e3}", ["YAML 1.1 takes it for text; write 1000"]),
        ("model: {num_layers: 6.0}", ["expected a whole number; found 6.0; write 6"]),
        ("model: {num_layers: true}", ["expected a whole number; found True"]),
        ("model: {num_layers: [6]}", ["model.num_layers: expected a whole number; found [6]"]),
        ("model: {qk_layernorm: 1}", ["expected true or false; found 1; write true or false"]),
        ("stages: {sft: {init: no}}", ['expected text; found False; put it in quotes if it is text: "no"']),
        (
            "sources: {demo_code: {dataset: 2026-01-02}}",
            ["expected text; found datetime.date", "put it in quotes"],
        ),
        (
            "tokenizer: {sources: demo_code}",
            ["tokenizer.sources: expected a list", "write a list: [demo_code]"],
        ),
        (
            "stages: {sft: {optimizer: }}",
            ["stages.sft.optimizer: expected a section of keys", "after the colon"],
        ),
        ("stages: {sft: }", ["stages.sft: expected a section of keys; found None"]),
        ("stages: [1]", ["stages: expected a section of names; found [1]"]),
        (
            "sources: {demo_code: {defaults: {day: 2026-01-02}}}",
            ["defaults", "`day` is nothing that JSON holds"],
        ),
        ("sources: {demo_code: {defaults: {at: .nan}}}", ["`at` is nothing that JSON holds"]),
        (f"sources: {{demo_code: {{defaults: {{n: {2**70}}}}}}}", ["`n` is nothing that JSON holds"]),
        ("sources: {demo_code: {cleaning: {settings: {x: .inf}}}}", ["`x` is nothing that JSON holds"]),
        ("mixes: {sft: {shards: 1000000000}}", ["mixes.sft.shards", "less than or equal to 100000"]),
        ("mixes: {sft: {max_epochs: 40000}}", ["mixes.sft.max_epochs", "less than or equal to 32767"]),
        (f"mixes: {{sft: {{sequence_length: {2**31}}}}}", ["mixes.sft.sequence_length", "2147483647"]),
    ],
)
def test_wrong_key_or_value(refused: Refused, text: str, parts: list[str]) -> None:
    message = refused(text)
    for part in parts:
        assert part in message, message


def test_every_problem_is_listed_with_its_line(refused: Refused, tmp_path: Path) -> None:
    message = refused("model:\n  num_layer: 1\nstages:\n  sft:\n    seq_length: x\n")
    assert "2 problems" in message
    assert "model.num_layer: unknown key (found 1)" in message and f"({tmp_path}/overlay.yaml:2)" in message
    assert f"found 'x' ({tmp_path}/overlay.yaml:5)" in message


def test_the_line_is_that_of_the_file_that_set_the_key(refused: Refused, tmp_path: Path) -> None:
    """The overlay makes `kind: import`; the keys that no longer fit stand in the recipe itself."""
    assert "config/tiny.yaml:" in refused("tokenizer: {kind: import, path: x}")


def test_a_key_of_stage_defaults_is_named_once_and_where_it_stands(refused: Refused, tmp_path: Path) -> None:
    message = refused("stage_defaults:\n  pretrain:\n    engine: x\n")
    assert message.count("stage_defaults.pretrain.engine") == 1
    assert f"({tmp_path}/overlay.yaml:3)" in message and "a problem" in message


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["The recipe file is empty"]),
        ("# only a comment\n", ["The recipe file is empty"]),
        ("- a\n", ["A recipe is a mapping of keys", ":1:1", "a list"]),
        ("plain", ["A recipe is a mapping of keys", "a single value"]),
        ("a: 1\nb: [1\n", ["Not valid YAML", ":3:1", "expected ',' or ']'"]),
        ("a:\n\tb: 1\n", ["Not valid YAML", ":2:1", "indent with spaces"]),
        ("a: 1\n---\nb: 2\n", ["Not valid YAML", ":2:1", "found another document"]),
        ("a: {x: 1, x: 2}", ["The key 'x' stands twice in one mapping", ":1:11", "the first one on line 1"]),
        ("a:\n  b: 1\nc: 2\na:\n  d: 1\n", ["The key 'a' stands twice", ":4:1", "the first one on line 1"]),
        ("- {a: 1, a: 1}", ["A recipe is a mapping"]),
        ("a: [{b: 1, b: 1}]", ["The key 'b' stands twice"]),
        ("a: &a {b: *a}", ["An alias holds itself", ":1:4"]),
        ("a: *b", ["Not valid YAML", "undefined alias"]),
        ("? [a, b]\n: 1\n", ["Not valid YAML", "unhashable key"]),
        ("a: !!python/object:os.system {}", ["could not determine a constructor"]),
        ("a: 2026-13-01", ["A value is not what it looks like to YAML", "put it in quotes"]),
        ("a: \x01", ["Not valid YAML"]),
        pytest.param("a: " + "[" * 200_000, ["nested too deeply"], id="200,000 brackets"),
        pytest.param("[" * 900 + "]" * 900, ["nested too deeply"], id="900 closed brackets"),
        pytest.param("{a: " * 900 + "1" + "}" * 900, ["nested too deeply"], id="900 mappings"),
    ],
)
def test_odd_yaml(tmp_path: Path, text: str, parts: list[str]) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    with pytest.raises(ZgcmError) as caught:
        read_mapping(path)
    message = caught.value.paragraph()
    assert str(path) in message
    for part in parts:
        assert part in message, message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path, part in ((tmp_path / "none.yaml", "No such recipe"), (tmp_path, "cannot be read")):
        with pytest.raises(ZgcmError, match=part):
            load_recipe([path])
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"name: caf\xe9\n")
    with pytest.raises(ZgcmError, match=r"A recipe is UTF-8 text.*found: byte 0xe9"):
        load_recipe([latin])


def test_merge_keys_and_aliases_are_no_duplicates(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("base: &b {x: 1, y: 2}\nother: {<<: *b, x: 3}\nlist: {<<: [*b, {x: 9, z: 4}]}\n")
    data = read_mapping(path)
    assert data["other"] == {"x": 3, "y": 2}
    assert data["list"] == {"x": 1, "y": 2, "z": 4}


def test_overlays_merge_key_by_key_and_later_ones_win(overlay: Callable[..., Recipe]) -> None:
    loaded = overlay("stages: {midtrain_64k: {optimizer: {lr: 0.001}}}")
    stage = loaded.train_stages()["midtrain_64k"]
    assert (stage.optimizer.lr, stage.optimizer.min_lr) == (0.001, 0.0005)


def test_stage_defaults_yield_to_the_stage(overlay: Callable[..., Recipe]) -> None:
    loaded = overlay(
        "stage_defaults: {pretrain: {log_interval: 7, seed: 3}}\nstages: {pretrain_1t: {seed: 5}}"
    )
    stages = loaded.train_stages()
    assert (stages["pretrain_1t"].log_interval, stages["pretrain_1t"].seed) == (7, 5)
    assert stages["pretrain_3p2t"].seed == 3


# --- whatever stands in the file, the answer is a recipe or an explanation -----------------------

JUNK = [
    None,
    True,
    0,
    -1,
    1.5,
    10**30,
    "",
    "x",
    "2e-4",
    [],
    [1],
    [[]],
    {},
    {"a": 1},
    {1: 2},
    {"kind": []},
    {"kind": 3},
]


def paths_of(value: object, prefix: tuple = ()) -> list[tuple]:
    if not isinstance(value, dict):
        return []
    below = [path for key, item in value.items() for path in paths_of(item, (*prefix, key))]
    return [(*prefix, key) for key in value] + below


def replaced(value: dict, path: tuple, junk: object) -> dict:
    head, rest = path[0], path[1:]
    return {**value, head: replaced(value[head], rest, junk) if rest else junk}


TINY_DATA = read_mapping(ROOT / "config/tiny.yaml")
PATHS = paths_of(TINY_DATA)


@settings(max_examples=200)
@given(data=st.data())
def test_junk_anywhere_is_explained(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(PATHS))
    key = data.draw(st.sampled_from([path[-1], "unknown", 7, "kind"]))
    changed = replaced(TINY_DATA, (*path[:-1], key), data.draw(st.sampled_from(JUNK)))
    try:
        validate_recipe(changed, "test")
    except ZgcmError as error:
        told = path[0].removesuffix("es")  # of no mixes at all: "unknown mix", where each is used
        assert told in error.found or str(key) in error.found


@pytest.mark.parametrize("kind", ["pretrain", "sft", "rl", "adopted"])
@pytest.mark.parametrize("stage", ["pretrain_1t", "sft", "rl_math"])
def test_after_a_change_of_kind_each_key_is_told_whose_it_is(tmp_path: Path, stage: str, kind: str) -> None:
    """Also the keys of sections inside, which both kinds have."""
    path = tmp_path / "other.yaml"
    path.write_text(f"stages: {{{stage}: {{kind: {kind}}}}}")
    try:
        load_recipe([ROOT / "config/tiny.yaml", path])
    except ZgcmError as error:
        told = [line for line in error.found.splitlines() if "it belongs to" in line]
        assert all("it belongs to kind: " in line for line in told), told
        assert told or "unknown key" not in error.found
