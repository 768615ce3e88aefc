"""A whole GRPO stage on the bandit policy of conftest.py: recipe overlay, prompts and results directory."""

import json
from pathlib import Path
from typing import Any

import yaml

from tests.rl.conftest import make_policy

TINY = Path(__file__).parents[2] / "config" / "tiny.yaml"


def prompt_rows(split: str, count: int) -> list[dict[str, Any]]:
    return [
        {
            "sample_id": f"{split}{number}",
            "domain": "math",
            "task_type": "math",
            "benchmark": "bandit",
            "messages": [{"role": "user", "content": f"{'q' if split == 'train' else 'v'}{number}"}],
            "answers": ["7"],
        }
        for number in range(count)
    ]


def prepare(root: Path, **stage: Any) -> list[str]:
    """Make results/export/sft and the prompts below `root`; returns the arguments of `zgcm rl`."""
    make_policy(root / "results" / "export" / "sft")
    for split, count in (("train", 10), ("valid", 6)):
        lines = [json.dumps(row) + "\n" for row in prompt_rows(split, count)]
        (root / f"{split}.jsonl").write_text("".join(lines))
    sampling = {"n_samples": 4, "max_new_tokens": 24, "max_tokens": 48}
    overlay = {
        "prompts": {"kind": "files", "train": str(root / "train.jsonl"), "valid": str(root / "valid.jsonl")},
        "epochs": 3,
        "steps": 4,
        "batch_size": 5,
        "max_prompt_tokens": 16,
        "rollout": {"sampling": sampling, "max_model_len": 64, "kv_cache_mb": 64},
        "reward": {"length_penalty": {"start": 4, "end": 24, "max": 0.05}, "workers": 1},
        "evaluation": {"every_steps": 2, "batch_size": 6, "sampling": sampling},
        "learner": {"lr": 5.0e-3, "optimizer": "adam"},
        "checkpoints": {"save_every_steps": 10},
        "resources": {"cpus_per_process": 1},
    }
    settings = yaml.safe_load(TINY.read_text())["stages"]["rl_math"]
    # the demo's prompts section has other keys than a file's: replace it, do not merge it
    recipe = yaml.safe_load(TINY.read_text())
    recipe["stages"]["rl_math"] = merge(settings, overlay | stage) | {"prompts": overlay["prompts"]}
    (root / "recipe.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
    return ["rl", "rl_math", "--recipe", str(root / "recipe.yaml"), "--results", str(root / "results")]


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict)
        merged[key] = merge(base[key], value) if both else value
    return merged
