"""The published GRPO settings, and where a stage differs from them.

A recipe may differ on purpose (the tiny one does); `differences` names every such key.
"""

from typing import Any

from zgcm.config.rl import RLStage

_COMMON: dict[str, Any] = {
    "epochs": 3,
    "batch_size": 384,
    "rollout.sampling.n_samples": 8,
    "rollout.sampling.max_new_tokens": 65536,
    "rollout.sampling.max_tokens": 98304,
    "rollout.max_model_len": 98304,
    "learner.max_tokens_per_microbatch": 69632,
    "learner.minibatches": 12,
    "learner.lr": 1e-6,
    "learner.kl_coefficient": 0.0,
    "evaluation.sampling.temperature": 1.0,
    "evaluation.sampling.greedy": False,
}
_MATH = _COMMON | {
    "steps": 177,
    "rollout.request_timeout": 14400,
    "evaluation.every_steps": 10,
    "evaluation.sampling.n_samples": 8,
}
PUBLISHED: dict[str, dict[str, Any]] = {
    "math": _MATH,
    "if": _MATH | {"steps": 219, "evaluation.batch_size": 153},
    "code": _COMMON
    | {
        "steps": 153,
        "checkpoints.save_every_steps": 51,
        "rollout.sampling.temperature": 1.0,
        "evaluation.every_steps": 51,
        "evaluation.sampling.n_samples": 1,
    },
}
"""Domain -> key -> published value: what the published trainers demand, 17 for math, 18 for IF and for code,
without `mask_no_eos_with_zero: false`. It would give responses that were cut off a reward of 0, which they
always earn here, so there is no such key."""
REWARDS: dict[str, dict[str, Any]] = {
    "math": {
        "reward.length_penalty.start": 16384,
        "reward.length_penalty.end": 65536,
        "reward.length_penalty.max": 0.05,
    },
    "if": {"reward.length_penalty": None},
    "code": {
        "reward.length_penalty": None,
        "reward.sandbox.max_tests": 8,
        "reward.sandbox.test_timeout": 2.0,
        "reward.sandbox.memory_mb": 1024,
    },
}
"""Published too, elsewhere: in the trainers' and the sandbox's own code."""


def differences(stage: RLStage) -> dict[str, tuple[Any, Any]]:
    """Key -> (found, published) for every published value that the stage does not have.

    Empty for `mixed`, which was never published.
    """
    published = PUBLISHED.get(stage.domain, {}) | REWARDS.get(stage.domain, {})
    found = {key: _lookup(stage, key) for key in published}
    return {key: (found[key], value) for key, value in published.items() if found[key] != value}


def remark(name: str, stage: RLStage) -> str:
    """On every value in which a stage differs from the published one of its domain, a line each."""
    if stage.domain not in PUBLISHED:
        return f"{name}: no stage of the domain {stage.domain} was published, so there is nothing to compare"
    found = differences(stage)
    if not found:
        return f"{name}: every value as published for {stage.domain}"
    lines = [f"  {key} {_shown(own)} ({_shown(other)})" for key, (own, other) in found.items()]
    return "\n".join([f"{name} differs from the published values (in brackets) of {stage.domain}:", *lines])


def _shown(value: Any) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else f"{value}"


def _lookup(section: Any, path: str) -> Any:
    """None below a section that is absent."""
    for name in path.split("."):
        section = getattr(section, name, None)
    return section
