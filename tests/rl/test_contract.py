"""The published values, written out by hand from the published configuration."""

from pathlib import Path

import pytest

from zgcm.config.load import load_recipe
from zgcm.config.rl import RLStage
from zgcm.rl.contract import PUBLISHED, differences

PUBLISHED_STAGE = {
    "kind": "rl",
    "domain": "math",
    "prompts": {"kind": "files", "train": "train.jsonl", "valid": "valid.jsonl"},
    "epochs": 3,
    "steps": 177,
    "batch_size": 384,
    "learner": {"lr": 1e-6, "minibatches": 12, "max_tokens_per_microbatch": 69632},
    "rollout": {
        "request_timeout": 14400,
        "max_model_len": 98304,
        "sampling": {"n_samples": 8, "max_new_tokens": 65536, "max_tokens": 98304},
    },
    "evaluation": {"every_steps": 10, "sampling": {"n_samples": 8}},
}


def test_the_published_math_stage_has_no_difference() -> None:
    assert differences(RLStage.model_validate(PUBLISHED_STAGE)) == {}


def test_a_difference_is_named_with_both_values() -> None:
    stage = PUBLISHED_STAGE | {"steps": 12, "learner": {**PUBLISHED_STAGE["learner"], "lr": 2e-6}}
    found = differences(RLStage.model_validate(stage))
    assert found == {"steps": (12, 177), "learner.lr": (2e-6, 1e-6)}


@pytest.mark.parametrize(("domain", "count"), [("math", 17), ("if", 18), ("code", 18)])
def test_number_of_values(domain: str, count: int) -> None:
    assert len(PUBLISHED[domain]) == count


def test_the_7b_recipe_is_the_published_one() -> None:
    recipe = load_recipe([Path(__file__).parents[2] / "config" / "zgcm-7b.yaml"])
    stages = recipe.rl_stages()
    assert {stage.domain for stage in stages.values()} == {"math", "code", "if"}
    assert [name for name, stage in stages.items() if differences(stage)] == []
