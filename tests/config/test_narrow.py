"""`only` and null: what an overlay takes away from a recipe; and what adopted parts do not go with."""

from pathlib import Path

import pytest
import yaml

from zgcm.config.load import load_recipe
from zgcm.config.narrow import narrow
from zgcm.config.recipe import Recipe
from zgcm.errors import ZgcmError
from zgcm.identity import recipe_id

CHECKOUT = Path(__file__).parents[2]
TINY = CHECKOUT / "config/tiny.yaml"

MINE = """
only: [sft, rl_math]
tokenizer: {kind: import, path: weights, sources: null}
sources: {mine: {kind: files, files: [a.jsonl], stage: posttrain, category: instruction, cleaned: true}}
mixes: {mine: {kind: packed, sources: {mine: 1}, sequence_length: 1024}}
stages:
  published: {kind: adopted, format: huggingface, path: weights}
  sft: {init: published, mix: {sft: null, mine: 1}}
"""


def load(tmp_path: Path, *overlays: str) -> Recipe:
    paths = [TINY]
    for number, text in enumerate(overlays):
        paths.append(tmp_path / f"{number}.yaml")
        paths[-1].write_text(text)
    return load_recipe(paths)


def test_only_keeps_what_the_listed_stages_need(tmp_path: Path) -> None:
    recipe = load(tmp_path, MINE)
    assert list(recipe.stages) == ["published", "sft", "rl_math"]
    assert list(recipe.mixes) == ["mine"]
    assert list(recipe.sources) == ["mine"]
    assert recipe.train_stages()["sft"].mix == {"mine": 1}


def test_stages_stand_in_the_order_of_only(tmp_path: Path) -> None:
    again = "{kind: sft, init: published, mix: {mine: 1}, data_order: cyclic, seq_length: 1024}"
    again = again[:-1] + ", micro_batch_size: 1, optimizer: {lr: 0.1}, schedule: {epochs: 1}}"
    overlay = f"only: [first, sft]\nstages: {{first: {again}, sft: {{init: first}}}}"
    assert list(load(tmp_path, MINE, overlay).stages) == ["published", "first", "sft"]


def test_excluded_mixes_and_sources_of_a_trained_tokenizer_stay(tmp_path: Path) -> None:
    recipe = load(tmp_path, "{only: [pretrain_1t]}")
    assert set(recipe.tokenizer.sources) <= set(recipe.sources)
    whole = yaml.safe_load(TINY.read_text())
    for mixes in [whole["mixes"]]:
        last = next(name for name, mix in mixes.items() if len(mix.get("exclude", [])) > 1)
        stage = {"kind": "pretrain", "mix": {last: 1}}
        kept = narrow({**whole, "stages": {"one": stage, "two": {}}, "only": ["one"]})
        assert set(kept["mixes"]) == {last, *mixes[last]["exclude"]}


def test_identity_does_not_know_what_was_left_out(tmp_path: Path) -> None:
    whole, part = load(tmp_path), load(tmp_path, "{only: [pretrain_1t]}")
    assert recipe_id(whole, "train", "pretrain_1t") == recipe_id(part, "train", "pretrain_1t")


@pytest.mark.parametrize(
    "data", [{}, {"only": [3], "stages": {}}, {"stages": {"a": 3}, "mixes": [1], "only": ["a"]}]
)
def test_wrong_forms_are_left_to_the_validation(data: dict) -> None:
    narrow(data)


@pytest.mark.parametrize(
    ("overlay", "said"),
    [
        (
            "{only: [sfft]}",
            "only: unknown stage 'sfft'; known: pretrain_1t, pretrain_3p2t, midtrain_16k, "
            "midtrain_64k, midtrain_256k, sft, rl_math, rl_code, rl_if, published; did you mean 'sft'?",
        ),
        (
            "{stages: {sft: {init: midtrain_256k}}}",
            "unknown earlier stage 'midtrain_256k'; known: none (`only`",
        ),
        ("{stages: {published: {format: safetensors}}}", "format: found 'safetensors'"),
        ("{stages: {published: {lr: 1}}}", "stages.published.lr: unknown key"),
        ("{stages: {sft: {continues: true}}}", "no optimizer state, iteration or consumed samples"),
        ("{sources: {mine: {profile: gharchive}}}", "`profile` has no effect"),
        ("{mixes: {mine: {prefixes: [a]}}}", "give either `sources` or `prefixes`"),
        ("{mixes: {mine: {sources: {mine: null}}}}", "give either `sources` or `prefixes`"),
    ],
)
def test_refusals(tmp_path: Path, overlay: str, said: str) -> None:
    with pytest.raises(ZgcmError) as error:
        load(tmp_path, MINE, overlay)
    assert said in str(error.value.paragraph())


@pytest.mark.parametrize(
    ("mix", "said"),
    [
        ("{prefixes: [a, b], shards: 3}", "found 2 `prefixes` and `shards: 3`"),
        ("{prefixes: [a], tokens: 5}", "`tokens` says how a mix is made of sources"),
        ("{}", "give either `sources` or `prefixes`"),
    ],
)
def test_an_adopted_mix_says_nothing_about_sources(tmp_path: Path, mix: str, said: str) -> None:
    with pytest.raises(ZgcmError, match=said):
        load(tmp_path, f"mixes: {{mine: {mix}}}")


def test_an_adopted_mix_has_a_shard_a_prefix_and_no_text_to_exclude(tmp_path: Path) -> None:
    recipe = load(tmp_path, "mixes: {mine: {prefixes: [a, b]}}")
    assert recipe.mixes["mine"].shards == 2
    moved = load(tmp_path, "mixes: {mine: {prefixes: [c, d]}}")
    assert recipe_id(recipe, "mix", "mine") == recipe_id(moved, "mix", "mine")
    with pytest.raises(ZgcmError, match="no text is known to leave out"):
        load(
            tmp_path,
            "{mixes: {mine: {prefixes: [a]}, last: {sources: {demo_code: 1}, exclude: [mine]}}}",
        )


def test_the_path_of_weights_is_no_identity_and_the_model_is(tmp_path: Path) -> None:
    ids = [
        recipe_id(load(tmp_path, MINE, overlay), "train", "sft")
        for overlay in (
            "{}",
            "{stages: {published: {path: elsewhere, weights_digest: abc}}}",
            "{model: {sliding_window: 32}}",
            "{stages: {published: {format: megatron}}}",
        )
    ]
    assert ids[0] == ids[1]
    assert len({ids[0], ids[2], ids[3]}) == 3


def test_the_recipes_of_the_docs_are_valid(tmp_path: Path) -> None:
    """Both overlays on docs/start-anywhere.md, each over the recipe that it names."""
    for base, name in (("tiny", "chats"), ("zgcm-7b", "chats-7b")):
        overlay = tmp_path / "overlay.yaml"
        overlay.write_text(documented(name))
        recipe = load_recipe([CHECKOUT / f"config/{base}.yaml", overlay])
        assert list(recipe.stages) == ["published", "sft", "rl_math"]
        assert len(overlay.read_text().splitlines()) <= 14


def documented(name: str) -> str:
    """The YAML block on the page that begins with this name."""
    blocks = (CHECKOUT / "docs/start-anywhere.md").read_text().split("```yaml\n")[1:]
    return next(text for block in blocks if (text := block.split("```")[0]).startswith(f"name: {name}\n"))
