"""A GRPO stage that a test can make in seconds, with the real model, tokenizer, engine and learner.

The policy has learned to answer every question with one of four digits, and the reward wants a 7.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml

from zgcm.model.hf.configuration_zgcm import ZgcmConfig
from zgcm.model.hf.modeling_zgcm import ZgcmForCausalLM
from zgcm.rundir.manifest import write_manifest
from zgcm.tokens.chat import render
from zgcm.tokens.tokenizer import default_template

TINY = Path(__file__).parents[2] / "config" / "tiny.yaml"
DIGITS = "2457"


def make_tokenizer(directory: Path) -> None:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    specials = ["<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"]
    vocabulary = {token: number for number, token in enumerate([*specials, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(specials)
    tokenizer.add_tokens([AddedToken(text, special=False) for text in ("<think>", "</think>")])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|endoftext|>", pad_token="<|endoftext|>"
    )
    fast.save_pretrained(directory)
    (directory / "chat_template.jinja").write_text(default_template())


Asked = Sequence[tuple[str, str]]
"""(what the user says, an answer with {} in place of the digit)."""
QUESTIONS: Asked = [(f"q{number}", "\\boxed{{{}}}") for number in range(10)]


def make_policy(directory: Path, *, steps: int = 60, asked: Asked = QUESTIONS) -> None:
    """A Hugging Face directory with its manifest; 2 layers, 0.1M parameters."""
    from tokenizers import Tokenizer

    directory.mkdir(parents=True)
    make_tokenizer(directory)
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    torch.manual_seed(0)
    config = ZgcmConfig(
        vocab_size=320,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        sliding_window=16,
        window_attn_skip_freq=2,
        max_position_embeddings=256,
        pad_token_id=0,
        eos_token_id=0,
        bos_token_id=None,
    )
    model = ZgcmForCausalLM(config)
    texts = [
        f"{render([{'role': 'user', 'content': content}], directory, add_generation_prompt=True)}"
        f"w</think>{answer.format(digit)}<|endoftext|>"
        for content, answer in asked
        for digit in DIGITS
    ]
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    longest = max(map(len, ids))
    ids_BL = torch.tensor([row + [0] * (longest - len(row)) for row in ids])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.0)
    for _ in range(steps):
        logits_BLV = model(input_ids=ids_BL, use_cache=False).logits[:, :-1]
        loss = torch.nn.functional.cross_entropy(logits_BLV.flatten(0, 1), ids_BL[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(directory)
    write_manifest(directory)


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


Rows = Callable[[str, int], list[dict[str, Any]]]


def prepare(root: Path, *, rows: Rows = prompt_rows, asked: Asked = QUESTIONS, **stage: Any) -> list[str]:
    """Make results/export/sft and the prompts below `root`; returns the arguments of `zgcm rl`. `rows`: of a
    split and how many; `asked`: what the policy has learned."""
    make_policy(root / "results" / "export" / "sft", asked=asked)
    for split, count in (("train", 10), ("valid", 6)):
        lines = [json.dumps(row) + "\n" for row in rows(split, count)]
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
        "learner": {"lr": 1.0e-3, "optimizer": "adam"},
        "checkpoints": {"save_every_steps": 10},
        "resources": {"cpus_per_process": 1},
    }
    settings = yaml.safe_load(TINY.read_text())["stages"]["rl_math"] | {"difficulty": None}
    # the demo's prompts section has other keys than a file's: replace it, do not merge it
    recipe = yaml.safe_load(TINY.read_text())
    merged = merge(settings, merge(overlay, stage))
    recipe["stages"]["rl_math"] = merged | {"prompts": {**overlay["prompts"], **stage.get("prompts", {})}}
    (root / "recipe.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
    return ["rl", "rl_math", "--recipe", str(root / "recipe.yaml"), "--directory", str(root)]


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(base.get(key), dict)
        merged[key] = merge(base[key], value) if both else value
    return merged
