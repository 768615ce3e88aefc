"""Against plain torch on the full token matrix, the way the published trainer computes them."""

import hashlib
import math
import struct

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from zgcm.rl.advantages import EPSILON, batch_normalise, digest, group_normalise, reject_reason


def test_group_normalise_is_unbiased_and_per_group() -> None:
    rewards_PN = torch.rand(5, 8, dtype=torch.float64)
    expected = (rewards_PN - rewards_PN.mean(1, keepdim=True)) / (rewards_PN.std(1, keepdim=True) + EPSILON)
    np.testing.assert_allclose(group_normalise(rewards_PN.numpy()), expected.numpy(), rtol=1e-12)


def test_equal_rewards_and_single_responses_give_zero() -> None:
    assert not group_normalise(np.ones((2, 8))).any()
    assert not group_normalise(np.array([[0.3], [0.9]])).any()


def test_batch_normalise_weighs_tokens() -> None:
    advantages_B = np.array([1.5, -0.5, 0.25])
    tokens_B = np.array([3, 1, 7])
    every_token = torch.tensor(np.repeat(advantages_B, tokens_B))
    expected = (torch.tensor(advantages_B) - every_token.mean()) / (every_token.std() + EPSILON)
    np.testing.assert_allclose(batch_normalise(advantages_B, tokens_B), expected.numpy(), rtol=1e-12)


@given(st.lists(st.tuples(st.floats(-3, 3), st.integers(1, 50)), min_size=2, max_size=30))
def test_batch_normalised_tokens_have_mean_zero(items: list[tuple[float, int]]) -> None:
    advantages_B, tokens_B = (np.array(column, dtype=float) for column in zip(*items, strict=True))
    normalised_B = batch_normalise(advantages_B, tokens_B)
    assert abs((normalised_B * tokens_B).sum()) < 1e-6 * tokens_B.sum()


def test_the_digest_is_of_the_values_that_the_learner_takes_in_their_order() -> None:
    values = [0.5, -1.25, 3.0]
    known = hashlib.sha256(struct.pack("<3f", *values)).hexdigest()[:12]
    assert digest(values) == digest(np.array(values)) == known
    assert digest(values[::-1]) != known
    for place in range(3):
        other = np.array(values)
        other[place] = np.nextafter(np.float32(values[place]), np.float32(9))
        assert digest(other) != known, "the next fp32 number is another advantage"
    assert digest([0.1]) == digest([float(np.float32(0.1))]), "what fp32 does not tell apart is the same"


GROUP = {"group_size": 4, "max_tokens": 100}
MIXED = [0.0, 1.0, 0.95, 0.0]
SHORT = [10, 20, 30, 40]


@pytest.mark.parametrize(
    ("rewards", "lengths", "reason"),
    [
        (MIXED, SHORT, None),
        (None, SHORT, "missing_required_tensor"),
        (MIXED, None, "missing_required_tensor"),
        ([0.0, 1.0], [1, 2], "bad_group_size"),
        ([0.0, math.nan, 1.0, 0.0], SHORT, "nonfinite_reward"),
        (MIXED, [10, 20, 30, 101], "over_update_cap"),
        ([0.0, 1.2, 1.0, 0.0], SHORT, "reward_out_of_range"),
        ([1.0, 0.95, 0.96, 1.0], SHORT, "zero_variance_group"),  # the penalty alone teaches nothing
        ([0.0] * 4, SHORT, "zero_variance_group"),
        # the first reason wins
        ([math.inf, 2.0], [1, 500], "bad_group_size"),
        ([math.inf, 2.0, 0.0, 0.0], [1, 2, 3, 500], "nonfinite_reward"),
        ([2.0, 2.0, 2.0, 2.0], [1, 2, 3, 500], "over_update_cap"),
        ([2.0] * 4, SHORT, "reward_out_of_range"),
    ],
)
def test_reject_reason(rewards: list[float] | None, lengths: list[int] | None, reason: str | None) -> None:
    assert reject_reason(rewards, lengths, **GROUP) == reason
