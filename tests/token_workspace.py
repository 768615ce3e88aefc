"""A small recipe and its cleaned shards, written as the corpus steps would write them."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from zgcm.config.load import load_recipe
from zgcm.config.recipe import Recipe
from zgcm.layout import Layout, shard_name
from zgcm.records import write_records

Row = dict[str, Any]


def words(rng: random.Random, count: int) -> str:
    """Text of made-up words, digits and line ends."""
    syllables = ["ka", "lo", "mi", "ster", "on", "ta", "ing", "e", "qua", "ß", "日"]
    parts = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(count)]
    return " ".join(p if rng.random() > 0.1 else f"{rng.randint(0, 999)}.\n" for p in parts)


def document(text: str, name: str, **record: Any) -> Row:
    return {
        "dataset": "test",
        "source_id": name,
        "stage": "pretrain",
        "category": "general_text",
        "decision": "keep",
        "reasons": [],
        "flags": [],
        "buckets": {},
        "metrics": {},
        "data": {"text": text},
        "text_fields": ["text"],
        **record,
    }


def conversation(messages: list[dict[str, Any]], name: str, **record: Any) -> Row:
    return document("", name, data={"messages": messages}, stage="posttrain", text_fields=[], **record)


def sum_conversation(a: int, b: int, *, thinking: bool = True) -> Row:
    turn = {"role": "assistant", "content": f"The answer is \\boxed{{{a + b}}}"}
    if thinking:
        turn["reasoning_content"] = f"{a}+{b}={a + b}"
    return conversation([{"role": "user", "content": f"What is {a}+{b}?"}, turn], f"{a}+{b}")


def write_source(layout: Layout, source: str, shards: Sequence[Sequence[Row]]) -> None:
    """Cleaned shards, their summaries and fingerprints."""
    for number, rows in enumerate(shards):
        shard = shard_name(number)
        write_records(layout.cleaned(source, shard), rows)
        counts = {name: sum(r["decision"] == name for r in rows) for name in ("keep", "review")}
        summary = {"in": len(rows), "kept": counts["keep"], "review": counts["review"], "dropped": 0}
        layout.cleaning_summary(source, shard).write_text(json.dumps(summary))
        write_fingerprints(layout.fingerprints(source, shard), rows)


def write_fingerprints(path: Path, rows: Sequence[Row]) -> None:
    texts = [json.dumps(row["data"], sort_keys=True).casefold() for row in rows]
    columns = {
        "row": pa.array(range(len(rows)), pa.int32()),
        "exact": pa.array([xxhash.xxh3_128_digest(t.encode()) for t in texts], pa.binary(16)),
        "quality": pa.array([row["metrics"].get("quality_score") for row in rows], pa.float32()),
        "chars": pa.array([len(text) for text in texts], pa.int32()),
        "source_id": pa.array([row["source_id"] for row in rows], pa.string()),
        "decision": pa.array([row["decision"] for row in rows], pa.string()),
        "simhash": pa.array([None] * len(rows), pa.uint64()),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def make_recipe(
    sources: dict[str, int],
    mixes: dict[str, Any] | None = None,
    *,
    vocab_size: int = 400,
    categories: dict[str, str] | None = None,
    include: dict[str, list[str]] | None = None,
) -> Recipe:
    """The tiny recipe with these sources (name -> shards) and mixes, and no stages."""
    base = load_recipe([Path(__file__).parents[1] / "config" / "tiny.yaml"])
    data = base.model_dump(exclude={"stages", "sources", "mixes", "stage_defaults", "tokenizer"})
    data["tokenizer"] = {"kind": "train", "vocab_size": vocab_size, "sources": list(sources)}
    data["sources"] = {
        name: {
            "kind": "demo",
            "content": "prose",
            "stage": "pretrain",
            "category": (categories or {}).get(name, "general_text"),
            "shards": shards,
            "documents": 1,
            "include": (include or {}).get(name, ["keep"]),
        }
        for name, shards in sources.items()
    }
    data["mixes"] = mixes or {}
    data["stages"] = {}
    return Recipe.model_validate(data)
