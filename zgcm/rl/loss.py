"""The decoupled GRPO loss, token by token.

Three policies meet at each token: the one that sampled it (behaviour; log-probabilities from the rollout
engine), the learner at the start of the step (proximal; recomputed), and the learner now. The clipped ratio
is now/proximal; the importance weight proximal/behaviour corrects for stale or differently rounded rollouts,
and a token whose weight exceeds the limit is left out (published as use_decoupled_loss,
rejection_sampling, eps_clip).

Tensors are flat over the response tokens of a micro-batch: axis T.
"""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class LossTerms:
    """`loss_T` carries the gradient; the masks are for statistics."""

    loss_T: torch.Tensor
    clipped_T: torch.Tensor
    masked_T: torch.Tensor


def grpo_loss(
    logprobs_T: torch.Tensor,
    proximal_T: torch.Tensor,
    behaviour_T: torch.Tensor,
    advantages_T: torch.Tensor,
    *,
    eps_clip: float,
    ratio_mask_upper: float,
    decoupled: bool = True,
) -> LossTerms:
    """Loss of each token; masked tokens give 0. The caller sums and divides by all tokens of the minibatch,
    masked ones too, so the scale does not depend on how many were masked.

    Without `decoupled` the proximal policy stands for the behaviour policy and nothing is masked.
    """
    ratio_T = torch.exp(logprobs_T - proximal_T)
    clipped_ratio_T = ratio_T.clamp(1.0 - eps_clip, 1.0 + eps_clip)
    surrogate_T = torch.minimum(ratio_T * advantages_T, clipped_ratio_T * advantages_T)
    weight_T = torch.exp(proximal_T - behaviour_T) if decoupled else torch.ones_like(ratio_T)
    masked_T = weight_T > ratio_mask_upper
    loss_T = torch.where(masked_T, torch.zeros_like(surrogate_T), -weight_T * surrogate_T)
    clipped_T = (clipped_ratio_T * advantages_T < ratio_T * advantages_T) & ~masked_T
    return LossTerms(loss_T, clipped_T, masked_T)


def warmup_factor(step: int, total_steps: int, proportion: float) -> float:
    """Learning-rate factor at `step` (from 0): linear over the first `proportion` of the steps, then 1."""
    warmup = int(total_steps * proportion)
    return min(1.0, (step + 1) / warmup) if warmup else 1.0
