"""config/zgcm-7b.yaml states the published recipe: every variable of every stage, exactly, both ways."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from published_entries import Derived, NoKey
from published_mapping import MAPPING, STAGES

from zgcm.config.load import load_recipe
from zgcm.config.plan import (
    blend_shares,
    epoch_iterations,
    is_gated_layer,
    is_global_layer,
    parameters,
    stage_plan,
)
from zgcm.config.recipe import Recipe

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PUBLISHED = json.loads((HERE / "published.json").read_text())
DIFFERENCES = yaml.safe_load((HERE / "differences.yaml").read_text())


@cache
def recipe() -> Recipe:
    return load_recipe([ROOT / "config/zgcm-7b.yaml"])


def at(path: str) -> Any:
    """The value of a recipe key; None below a section that is absent."""
    value: Any = recipe()
    for part in path.split("."):
        if value is None:
            return None
        value = value[part] if isinstance(value, dict) else getattr(value, part)
    return value


def compare(stage: str, variable: str) -> tuple[Any, Any] | None:
    """(published value in the recipe's form, ours), or None when the variable has no key."""
    entry, value = MAPPING[stage][variable], PUBLISHED[stage][variable]
    ours = STAGES.get(stage, "")
    if isinstance(entry, NoKey):
        return None
    if isinstance(entry, Derived):
        return value, entry.compute(recipe(), ours)
    return entry.convert(value), at(entry.path.format(stage=ours))


def declared() -> dict[tuple[str, str], dict[str, Any]]:
    return {(stage, item["variable"]): item for item in DIFFERENCES["values"] for stage in item["stages"]}


@pytest.mark.parametrize("stage", MAPPING)
def test_every_published_variable_is_mapped(stage: str) -> None:
    unmapped = PUBLISHED[stage].keys() - MAPPING[stage].keys()
    assert not unmapped, (
        f"published variables of {stage} that no entry of published_mapping.py covers: {sorted(unmapped)}"
    )


def test_every_group_of_published_variables_is_mapped() -> None:
    assert PUBLISHED.keys() - {"derived"} == MAPPING.keys()


def test_no_mapping_without_a_published_variable() -> None:
    published = {variable for stage in MAPPING for variable in PUBLISHED[stage]}
    mapped = {variable for entries in MAPPING.values() for variable in entries}
    assert mapped <= published, f"mapped, but published nowhere: {sorted(mapped - published)}"


def mistakes(stage: str) -> list[str]:
    """What is wrong with the comparison of a stage, a line for each variable."""
    found = []
    for variable in PUBLISHED[stage].keys() & MAPPING[stage].keys():
        compared, difference = compare(stage, variable), declared().get((stage, variable))
        if compared is None:
            if difference is not None:
                found.append(f"{variable}: a difference is declared for a variable without a key")
            continue
        published, ours = compared
        if difference is None and ours != published:
            found.append(f"{variable}: published {published!r}, ours {ours!r}: an undeclared difference")
        if difference is not None and ours == published:
            found.append(f"{variable}: a declared difference no longer differs; remove it")
        if difference is not None and (difference["published"], difference["ours"]) != (published, ours):
            found.append(f"{variable}: declared otherwise, but published {published!r}, ours {ours!r}")
    return sorted(found)


@pytest.mark.parametrize("stage", MAPPING)
def test_values(stage: str) -> None:
    assert not mistakes(stage)


def test_every_variable_without_a_key_has_a_reason() -> None:
    entries = [entry for mapping in MAPPING.values() for entry in mapping.values()]
    assert all(len(entry.reason) > 10 for entry in entries if isinstance(entry, NoKey))
    assert all(len(item["reason"]) > 30 for part in ("values", "behaviours") for item in DIFFERENCES[part])


def test_differences_name_published_variables() -> None:
    for item in DIFFERENCES["values"] + DIFFERENCES["behaviours"]:
        for stage in item["stages"]:
            assert item["variable"] in PUBLISHED[stage], f"{item['variable']} is no variable of {stage}"


def test_the_comparison_notices_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PUBLISHED["midtrain_64k"], "LR", 3e-5)
    assert mistakes("midtrain_64k") == ["LR: published 3e-05, ours 2e-05: an undeclared difference"]
    monkeypatch.setitem(PUBLISHED["sft"], "EVAL_ITERS", 0)
    assert "EVAL_ITERS: a declared difference no longer differs; remove it" in mistakes("sft")
    monkeypatch.setitem(PUBLISHED["sft"], "NEW_SWITCH", 1)
    with pytest.raises(AssertionError, match="NEW_SWITCH"):
        test_every_published_variable_is_mapped("sft")


# --- numbers derived from the published ones ---------------------------------------------------------------


def derived() -> dict[str, Any]:
    """The same numbers by zgcm.config.plan, from the recipe alone."""
    loaded, model = recipe(), recipe().model
    counted = parameters(model, loaded.tokenizer.vocab_size)
    layers = range(1, model.num_layers + 1)
    group = model.num_attention_heads // model.num_query_groups * model.kv_channels
    ungated_rows = (group + 2 * model.kv_channels) * model.num_query_groups
    plans = {name: stage_plan(loaded, name) for name in loaded.train_stages()}
    shares = blend_shares(loaded, "midtrain_16k")
    sft, sft_plan = loaded.train_stages()["sft"], plans["sft"]
    epoch = epoch_iterations(sft.expected_train_tokens or 0, 1, sft.seq_length, sft.global_batch_size)
    first, second = plans["pretrain_1t"], plans["pretrain_3p2t"]
    numbers: dict[str, Any] = {
        "params_total": counted.total,
        "params_muon": counted.matrices,
        "params_adam": counted.others,
        "global_layers_1_indexed": [layer for layer in layers if is_global_layer(model, layer)],
        "swa_layers_count": sum(not is_global_layer(model, layer) for layer in layers),
        "rotary_dims": model.rotary_dim,
        "qkv_rows_gated_layer": ungated_rows + group * model.num_query_groups * is_gated_layer(model, 1),
        "qkv_rows_global_layer": ungated_rows,
        "pretrain_s1": {
            "samples": first.samples,
            "tokens": first.tokens,
            "dp": first.data_parallel,
            "grad_accum": first.micro_batches,
        },
        "pretrain_s2": {
            "new_iters": second.iterations,
            "new_samples": second.samples,
            "new_tokens": second.tokens,
            "cumulative_samples": (first.samples or 0) + (second.samples or 0),
            "cumulative_tokens": (first.tokens or 0) + (second.tokens or 0),
            "dp": second.data_parallel,
            "grad_accum": second.micro_batches,
        },
        "tokens_per_step_all_stages": sft.seq_length * sft.global_batch_size,
        "midtrain_blend": {
            "long_shards": loaded.mixes["midtrain_mix64"].shards,
            "long_weight": loaded.train_stages()["midtrain_16k"].mix["midtrain_mix64"],
            "short_shards": loaded.mixes["midtrain_mix16"].shards,
            "short_weight": loaded.train_stages()["midtrain_16k"].mix["midtrain_mix16"],
            "long_fraction": float(shares["midtrain_mix64"]),
            "short_fraction": float(shares["midtrain_mix16"]),
        },
        "sft": {
            "epoch_iters": epoch,
            "train_iters": sft_plan.iterations,
            "save_interval": epoch * sft.checkpoints.save_every_epochs,
            "effective_epochs": (sft_plan.tokens or 0) / (sft.expected_train_tokens or 1),
            "samples": sft_plan.samples,
            "record_passes": (sft_plan.samples or 0) / (sft.expected_train_records or 1),
            "dp_192gpu": sft_plan.data_parallel,
            "grad_accum_192gpu": sft_plan.micro_batches,
        },
    }
    for name in ("midtrain_16k", "midtrain_64k", "midtrain_256k"):
        plan = plans[name]
        numbers[name] = {
            "iters": plan.iterations,
            "tokens": plan.tokens,
            "warmup_iters": plan.warmup_iterations,
            "dp": plan.data_parallel,
            "grad_accum": plan.micro_batches,
        }
    for name, stage in loaded.rl_stages().items():
        steps = stage.steps // stage.epochs
        numbers[name] = {
            "steps_per_epoch": steps,
            "train_rows_min": steps * stage.batch_size,
            "train_rows_max": (steps + 1) * stage.batch_size - 1,
            "eval_versions": stage.evaluation_versions(),
        }
    return numbers


@pytest.mark.parametrize("name", PUBLISHED["derived"])
def test_derived_number(name: str) -> None:
    assert derived()[name] == PUBLISHED["derived"][name]


def test_every_stage_makes_steps_of_the_same_number_of_tokens() -> None:
    for name, stage in recipe().train_stages().items():
        assert (
            stage.seq_length * stage.global_batch_size == PUBLISHED["derived"]["tokens_per_step_all_stages"]
        ), name


def test_the_recipe_names_no_stage_or_value_beyond_the_published_ones() -> None:
    assert set(recipe().stages) == set(STAGES.values())


def test_mixes_with_unpublished_weights_are_marked() -> None:
    assumed = {name for name, mix in recipe().mixes.items() if mix.assumed}
    assert assumed == {"pretrain_1t", "pretrain_3p2t", "midtrain_mix16", "midtrain_mix64"}


def test_every_lock_is_marked_as_assumed_and_is_small() -> None:
    shards = 0
    for name, source in recipe().sources.items():
        lock = json.loads((ROOT / source.lock).read_text())  # type: ignore[union-attr, arg-type]
        assert lock["assumed"] is True and lock["source"] == name and lock["kind"] == "hub"
        assert lock["repo"] == source.repo and lock["revision"] == source.revision  # type: ignore[union-attr]
        assert all(item["sha256"] is None for item in lock["files"]), "nobody knows these digests"
        shards += len(lock["files"])
    assert 100 <= shards <= 300
