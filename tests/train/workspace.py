"""A results directory as the data rooms leave it, made of random text, and a recipe that fits it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder

from zgcm.config.load import validate_recipe
from zgcm.config.recipe import Recipe, deep_merge
from zgcm.io import sha256_file, write_json
from zgcm.layout import Layout, mix_shards, shard_name
from zgcm.rundir.manifest import write_manifest

EOD = 0
END = "<|endoftext|>"
VOCABULARY = 250
TOKENIZER = {
    "kind": "train",
    "vocab_size": VOCABULARY,
    "end_token": END,
    "end_id": EOD,
    "added_tokens": {END: EOD},
}
"""Facts of the workspace's tokenizer."""

RECIPE: dict[str, Any] = {
    "name": "test",
    "model": {
        "num_layers": 2,
        "hidden_size": 32,
        "ffn_hidden_size": 64,
        "num_attention_heads": 4,
        "num_query_groups": 2,
        "kv_channels": 16,
        "rotary_percent": 0.5,
        "sliding_window": 8,
        "window_attn_skip_freq": 2,
        "make_vocab_size_divisible_by": 64,
    },
    "tokenizer": {"kind": "train", "vocab_size": VOCABULARY, "sources": ["text"]},
    "sources": {
        "text": {"kind": "demo", "content": "code", "stage": "pretrain", "category": "code", "documents": 9},
        "talk": {
            **{"kind": "demo", "content": "conversations", "stage": "posttrain", "category": "math"},
            "documents": 9,
        },
    },
    "mixes": {
        "first": {"sources": {"text": 1}, "order": "curriculum", "shards": 2},
        "second": {"sources": {"text": 1}, "shards": 2},
        "long": {"sources": {"text": 1}, "shards": 2},
        "short": {"sources": {"text": 1}},
        "packed": {"kind": "packed", "sources": {"talk": 1}, "sequence_length": 64},
    },
    "stage_defaults": {
        kind: {
            **{"engine": "local", "attention_backend": "unfused", "dataloader_workers": 0},
            **{"dataset_builder_threads": 1, "log_interval": 2, "seq_length": 32},
            **{"micro_batch_size": 2, "global_batch_size": 4},
        }
        for kind in ("pretrain", "sft")
    },
    "stages": {
        "one": {
            **{"kind": "pretrain", "mix": {"first": 1}, "data_order": "sequential"},
            "optimizer": {"lr": 0.01},
            "schedule": {"train_iters": 8, "lr_warmup_iters": 2},
            "checkpoints": {"save_interval": 3},
        },
        "two": {
            **{"kind": "pretrain", "init": "one", "continues": True, "mix": {"second": 1}},
            **{"data_order": "sequential", "optimizer": {"lr": 0.01}},
            "schedule": {"train_iters": 14, "lr_warmup_iters": 2, "override_opt_param_scheduler": True},
            "checkpoints": {"save_interval": 3},
        },
        "mid": {
            **{"kind": "pretrain", "init": "two", "mix": {"long": 2, "short": 1}},
            "optimizer": {"lr": 0.005, "min_lr": 0.0005, "lr_decay_style": "cosine"},
            "schedule": {"train_samples": 24, "lr_warmup_samples": 4, "lr_decay_samples": 24},
            "checkpoints": {"save_interval": 4},
        },
        "tuned": {
            **{"kind": "sft", "init": "mid", "mix": {"packed": 1}, "data_order": "cyclic"},
            **{"seq_length": 64, "micro_batch_size": 1, "global_batch_size": 2, "rotary_base": 10_000_000},
            "optimizer": {"lr": 0.002, "min_lr": 0.0002, "lr_decay_style": "cosine"},
            "schedule": {"epochs": 1},
            "checkpoints": {"save_interval": 40},
        },
    },
}


def make(root: Path, **changes: Any) -> tuple[Recipe, Layout]:
    """The recipe with changes merged in, and a results directory that holds the data of all its mixes."""
    recipe = validate_recipe(deep_merge(RECIPE, changes), where="tests")
    layout = Layout(root)
    (layout.tokenizer).mkdir(parents=True, exist_ok=True)
    write_json(
        layout.tokenizer / "tokenizer.json",
        {"model": {"vocab": {"a": 1}}, "added_tokens": [{"content": END, "id": EOD}]},
    )
    write_manifest(layout.tokenizer, **TOKENIZER)
    for number, (name, mix) in enumerate(recipe.mixes.items()):
        random = np.random.default_rng(number)
        for shard in mix_shards(recipe, name):
            if mix.kind == "packed":
                write_packed(layout, name, shard, int(mix.sequence_length or 0), random)
            else:
                write_documents(layout.mix_prefix(name, shard), layout.mix(name) / f"{shard}.json", random)
    return recipe, layout


def write_recipe(path: Path, **changes: Any) -> Path:
    path.write_text(json.dumps(deep_merge(RECIPE, changes)))  # JSON is YAML
    return path


def write_documents(prefix: Path, manifest: Path, random: np.random.Generator, documents: int = 60) -> None:
    """Documents of a Markov chain, so that there is something to learn; each ends with EOD."""
    follow = random.integers(1, VOCABULARY, (VOCABULARY, 4))
    items = []
    for _ in range(documents):
        tokens = [int(random.integers(1, VOCABULARY))]
        for _ in range(int(random.integers(10, 60))):
            tokens.append(int(follow[tokens[-1], random.integers(4)]))
        items.append([*tokens, EOD])
    write_items(prefix, items, np.uint16)
    write_json(manifest, report(prefix, documents=documents, tokens=sum(map(len, items))))


def write_items(prefix: Path, items: list[list[int]], dtype: Any) -> None:
    import torch

    prefix.parent.mkdir(parents=True, exist_ok=True)
    builder = IndexedDatasetBuilder(f"{prefix}.bin", dtype=dtype)
    for item in items:
        builder.add_item(torch.tensor(item))
        builder.end_document()
    builder.finalize(f"{prefix}.idx")


def report(prefix: Path, **facts: Any) -> dict[str, Any]:
    ends = (".bin", ".idx")
    digests = {f"{end[1:]}_sha256": sha256_file(prefix.with_name(prefix.name + end)) for end in ends}
    return {"dtype": "uint16", **digests, **facts}  # facts may name another dtype


def write_packed(layout: Layout, mix: str, shard: str, length: int, random: np.random.Generator) -> None:
    """Packed sequences of conversations whose answer repeats the question."""
    tokens, targets, edges = [], [], []
    for _ in range(150):
        row: list[int] = []
        goal: list[int] = []
        edge = [0]
        while True:
            question = [int(token) for token in random.integers(1, VOCABULARY, int(random.integers(2, 9)))]
            if len(row) + 2 * len(question) + 1 > length:
                break
            row += [*question, *question, EOD]
            goal += [-100] * len(question) + [*question, EOD]
            edge.append(len(row))
        tokens.append(row), targets.append(goal), edges.append(edge)
    prefix = layout.packed_prefix(mix, shard)
    parts = {}
    for part, rows in (("tokens", tokens), ("targets", targets), ("cu_seqlens", edges)):
        place, total = prefix.with_name(f"{shard}_{part}"), sum(map(len, rows))
        write_items(place, rows, np.int32)
        parts[part] = report(place, documents=len(rows), tokens=total, dtype="int32")
    count = sum(map(len, tokens))
    facts = {"tokens": count, "sequences": len(tokens), "parts": parts}
    write_json(layout.mix(mix) / f"{shard}.json", facts)
    write_json(layout.dataset(mix), {"train_tokens": count, "train_records": len(tokens)})


__all__ = ["EOD", "RECIPE", "TOKENIZER", "VOCABULARY", "make", "shard_name", "write_recipe"]
