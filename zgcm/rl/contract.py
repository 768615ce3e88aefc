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
    "learner.mask_no_eos_with_zero": False,
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
"""Domain -> key -> published value: 17 for math, 18 for IF and for code."""


def differences(stage: RLStage) -> dict[str, tuple[Any, Any]]:
    """Key -> (found, published) for every published value that the stage does not have."""
    published = PUBLISHED.get(stage.domain, {})
    found = {key: _lookup(stage, key) for key in published}
    return {key: (found[key], value) for key, value in published.items() if found[key] != value}


def _lookup(section: Any, path: str) -> Any:
    for name in path.split("."):
        section = getattr(section, name)
    return section
