"""Group-normalised rewards, batch-normalised advantages, and the filter of groups that teach nothing.

Without critic and KL term a response's advantage is the same at each of its tokens: its normalised reward
(as published). Axes: P prompts (groups), N responses a prompt, B responses of the batch.
"""

import hashlib
import math
from collections.abc import Sequence

import numpy as np

EPSILON = 1e-5
"""Added to every standard deviation, so that equal rewards give zero and not a division by zero."""


def reject_reason(
    rewards: Sequence[float] | None,
    lengths: Sequence[int] | None,
    *,
    group_size: int,
    max_tokens: int,
    domain: str = "math",
) -> str | None:
    """Why a group of responses is left out of the update, or None. First hit wins (as published).

    `lengths` are tokens of prompt and response together; longer than `max_tokens` cannot be trained on. What
    must vary is reward > 0 in mathematics (a length penalty alone makes no group worth training on), in other
    domains the reward, a share.
    """
    if not rewards or not lengths:
        return "missing_required_tensor"
    if len(rewards) != group_size or len(lengths) != group_size:
        return "bad_group_size"
    if not all(math.isfinite(reward) for reward in rewards):
        return "nonfinite_reward"
    if max(lengths) > max_tokens:
        return "over_update_cap"
    if not all(0 <= reward <= 1 for reward in rewards):
        return "reward_out_of_range"
    varies = [reward > 0 for reward in rewards] if domain == "math" else rewards
    if np.std(varies) < 1e-6:
        return "zero_variance_group"
    return None


def group_normalise(rewards_PN: np.ndarray) -> np.ndarray:
    """(reward - mean) / (unbiased standard deviation + eps) within each group; a group of one gives 0."""
    centred_PN = rewards_PN - rewards_PN.mean(axis=1, keepdims=True)
    if rewards_PN.shape[1] == 1:
        return centred_PN
    return centred_PN / (rewards_PN.std(axis=1, ddof=1, keepdims=True) + EPSILON)


def batch_normalise(advantages_B: np.ndarray, tokens_B: np.ndarray) -> np.ndarray:
    """Normalise over all response tokens of the batch: a response weighs as many times as it has tokens."""
    total = tokens_B.sum()
    mean = (advantages_B * tokens_B).sum() / total
    variance = (((advantages_B - mean) ** 2) * tokens_B).sum() / max(total - 1, 1)
    return (advantages_B - mean) / (math.sqrt(variance) + EPSILON)


def digest(advantages_B: Sequence[float] | np.ndarray) -> str:
    """SHA-256, first 12 digits, of the advantages as the learner takes them: little-endian fp32, in order."""
    return hashlib.sha256(np.asarray(advantages_B, dtype="<f4").tobytes()).hexdigest()[:12]
