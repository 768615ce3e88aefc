"""The loss against a reference written token by token, and a bandit that it teaches."""

import math

import pytest
import torch

from zgcm.rl.advantages import batch_normalise, group_normalise
from zgcm.rl.loss import grpo_loss, warmup_factor


def reference(
    new: float, proximal: float, behaviour: float, advantage: float, clip: float, cap: float
) -> float:
    """One token, from the formula."""
    weight = math.exp(proximal - behaviour)
    if weight > cap:
        return 0.0
    ratio = math.exp(new - proximal)
    bounded = min(max(ratio, 1 - clip), 1 + clip)
    return -weight * min(ratio * advantage, bounded * advantage)


def test_against_the_formula() -> None:
    generator = torch.Generator().manual_seed(0)
    new, proximal, behaviour, advantages = torch.randn(4, 500, generator=generator, dtype=torch.float64)
    terms = grpo_loss(new, proximal, behaviour, advantages, eps_clip=0.2, ratio_mask_upper=5.0)
    expected = [
        reference(*map(float, values), 0.2, 5.0)
        for values in zip(new, proximal, behaviour, advantages, strict=True)
    ]
    torch.testing.assert_close(terms.loss_T, torch.tensor(expected, dtype=torch.float64))
    assert terms.masked_T.any() and terms.clipped_T.any()


def test_masked_tokens_have_no_gradient() -> None:
    new = torch.tensor([0.0, 0.0], requires_grad=True)
    terms = grpo_loss(
        new,
        torch.tensor([0.0, 0.0]),
        torch.tensor([0.0, -2.0]),  # the second token is exp(2) = 7.4 times likelier now than when sampled
        torch.tensor([1.0, 1.0]),
        eps_clip=0.2,
        ratio_mask_upper=5.0,
    )
    terms.loss_T.sum().backward()
    assert new.grad.tolist() == [-1.0, 0.0]
    assert terms.masked_T.tolist() == [False, True]


def test_without_decoupling_the_behaviour_policy_does_not_matter() -> None:
    new, proximal, behaviour, advantages = torch.randn(4, 50, generator=torch.Generator().manual_seed(1))
    settings = {"eps_clip": 0.2, "ratio_mask_upper": 5.0, "decoupled": False}
    one = grpo_loss(new, proximal, behaviour, advantages, **settings)
    two = grpo_loss(new, proximal, behaviour + 9, advantages, **settings)
    assert torch.equal(one.loss_T, two.loss_T) and not one.masked_T.any()


@pytest.mark.parametrize(("step", "factor"), [(0, 0.2), (3, 0.8), (4, 1.0), (176, 1.0)])
def test_warmup(step: int, factor: float) -> None:
    assert warmup_factor(step, 177, 0.03) == pytest.approx(factor)  # int(177 x 0.03) = 5 steps
    assert warmup_factor(step, 12, 0.03) == 1.0


def test_a_bandit_learns_the_rewarded_arm() -> None:
    """Four arms, two prompts, arm 2 pays for the first and arm 0 for the second."""
    generator = torch.Generator().manual_seed(0)
    logits_PA = torch.zeros(2, 4, requires_grad=True)
    optimizer = torch.optim.Adam([logits_PA], lr=0.1)
    paying = torch.tensor([2, 0])
    for _ in range(60):
        behaviour_PA = logits_PA.detach().log_softmax(-1)
        arms_PN = torch.multinomial(behaviour_PA.exp(), 8, replacement=True, generator=generator)
        rewards_PN = (arms_PN == paying[:, None]).double().numpy()
        advantages_B = batch_normalise(group_normalise(rewards_PN).ravel(), torch.ones(16).numpy())
        old_T = behaviour_PA.gather(1, arms_PN).flatten()
        for _ in range(2):
            new_T = logits_PA.log_softmax(-1).gather(1, arms_PN).flatten()
            advantages_T = torch.tensor(advantages_B).float()
            terms = grpo_loss(new_T, old_T, old_T, advantages_T, eps_clip=0.2, ratio_mask_upper=5.0)
            optimizer.zero_grad()
            terms.loss_T.mean().backward()
            optimizer.step()
    probability = logits_PA.softmax(-1).gather(1, paying[:, None])
    assert (probability > 0.9).all()
