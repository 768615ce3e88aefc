"""Steps, tokens and ranks of recipes other than the published one (that is test_published.py)."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from zgcm.config.load import load_recipe
from zgcm.config.plan import (
    blend_shares,
    epoch_iterations,
    is_gated_layer,
    parameters,
    passes_over_data,
    stage_plan,
)
from zgcm.config.recipe import Recipe

TINY = load_recipe([Path(__file__).parents[2] / "config/tiny.yaml"])


def test_a_continuing_stage_counts_only_its_own_iterations() -> None:
    first, second = stage_plan(TINY, "pretrain_1t"), stage_plan(TINY, "pretrain_3p2t")
    assert first.iterations is not None and second.iterations is not None
    assert first.iterations + second.iterations == second.last_iteration


def test_sft_has_no_length_before_its_data() -> None:
    plan = stage_plan(TINY, "sft")
    assert (plan.iterations, plan.samples, plan.tokens) == (None, None, None)
    assert passes_over_data(TINY, "sft") is None


def test_epochs_round_down_over_the_whole_run_and_not_per_epoch() -> None:
    assert epoch_iterations(tokens=150, epochs=1, seq_length=10, global_batch_size=10) == 1
    assert epoch_iterations(tokens=150, epochs=2, seq_length=10, global_batch_size=10) == 3


def test_blend_shares_weigh_shards_and_sum_to_one() -> None:
    shares = blend_shares(TINY, "midtrain_16k")
    assert shares == {"midtrain_mix64": Fraction(4, 5), "midtrain_mix16": Fraction(1, 5)}
    assert sum(shares.values()) == 1


def test_more_ranks_mean_fewer_micro_batches(overlay: Callable[..., Recipe]) -> None:
    one = stage_plan(TINY, "midtrain_16k")
    two = stage_plan(overlay("stages: {midtrain_16k: {resources: {processes_per_node: 2}}}"), "midtrain_16k")
    assert (two.data_parallel, two.micro_batches) == (2 * one.data_parallel, one.micro_batches // 2)


@pytest.mark.parametrize(("gate", "gated"), [("none", 0), ("window", 5), ("all", 6)])
def test_parameters_count_a_gate_for_each_gated_layer(
    overlay: Callable[..., Recipe], gate: str, gated: int
) -> None:
    model = overlay(f"model: {{attention_output_gate: {gate}, num_layers: 6}}").model
    without = overlay("model: {attention_output_gate: none, num_layers: 6}").model
    gate_size = model.hidden_size * model.num_attention_heads * model.kv_channels
    assert sum(is_gated_layer(model, layer) for layer in range(1, 7)) == gated
    assert parameters(model, 10).matrices - parameters(without, 10).matrices == gated * gate_size
