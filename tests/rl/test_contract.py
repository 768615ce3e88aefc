"""The published values, written out by hand from the published configuration."""

from pathlib import Path
from typing import Any

import pytest

from zgcm.config.load import load_recipe
from zgcm.config.rl import RLStage
from zgcm.rl.contract import PUBLISHED, differences, remark

PUBLISHED_STAGE = {
    "kind": "rl",
    "domain": "math",
    "prompts": {"kind": "files", "train": "train.jsonl", "valid": "valid.jsonl"},
    "epochs": 3,
    "steps": 177,
    "batch_size": 384,
    "learner": {"lr": 1e-6, "minibatches": 12, "max_tokens_per_microbatch": 69632},
    "reward": {"length_penalty": {"start": 16384, "end": 65536, "max": 0.05}},
    "rollout": {
        "request_timeout": 14400,
        "max_model_len": 98304,
        "sampling": {"n_samples": 8, "max_new_tokens": 65536, "max_tokens": 98304},
    },
    "evaluation": {"every_steps": 10, "sampling": {"n_samples": 8}},
}


def stage(**changes: Any) -> RLStage:
    return RLStage.model_validate(PUBLISHED_STAGE | changes)


def test_the_published_math_stage_has_no_difference() -> None:
    assert differences(stage()) == {}


def test_a_difference_is_named_with_both_values() -> None:
    found = differences(stage(steps=12, learner={**PUBLISHED_STAGE["learner"], "lr": 2e-6}))
    assert found == {"steps": (12, 177), "learner.lr": (2e-6, 1e-6)}


@pytest.mark.parametrize(("domain", "count"), [("math", 16), ("if", 17), ("code", 17)])
def test_number_of_values(domain: str, count: int) -> None:
    """One less than the published trainers check: `mask_no_eos_with_zero` is no key here."""
    assert len(PUBLISHED[domain]) == count


def test_every_difference_is_said_of_every_domain() -> None:
    assert remark("rl_math", stage()) == "rl_math: every value as published for math"
    own = stage(domain="code", reward={"sandbox": {"test_timeout": 5.0}}, steps=153)
    said = remark("rl_code", own).splitlines()
    assert said[0] == "rl_code differs from the published values (in brackets) of code:"
    assert {"  reward.sandbox.test_timeout 5.0 (2.0)", "  evaluation.every_steps 10 (51)"} < set(said)
    assert not any("steps 153" in line or "max_tests" in line for line in said)
    assert all(line.startswith("  ") and line.count("(") == 1 for line in said[1:]), "a key a line"
    bare = remark("rl_math", stage(reward={}))
    assert "\n  reward.length_penalty.max none (0.05)" in bare
    assert "nothing to compare" in remark("rl_mixed", stage(domain="mixed"))


def test_the_7b_recipe_is_the_published_one() -> None:
    config = Path(__file__).parents[2] / "config"
    stages = load_recipe([config / "zgcm-7b.yaml", config / "zgcm-7b-mixed.yaml"]).rl_stages()
    assert [stage.domain for stage in stages.values()] == ["math", "code", "if", "mixed"]
    assert [name for name, stage in stages.items() if differences(stage)] == []
    assert {name: stage.steps for name, stage in stages.items() if name != "rl_mixed"} == {
        "rl_math": 177,
        "rl_code": 153,
        "rl_if": 219,
    }
    own = {"domain", "prompts", "reward", "difficulty"}
    mixed, same = (stages[name].model_dump(exclude=own) for name in ("rl_mixed", "rl_math"))
    differs = {key for key in mixed if mixed[key] != same[key]}
    assert differs <= {"resources"}, "what it leaves out is what the published three share"
