"""What happened to the data: records in, kept, for review, dropped and why; quotas of mixes, and tokens."""

from collections import Counter
from pathlib import Path
from typing import Any

from zgcm.config.recipe import Recipe
from zgcm.io import read_json
from zgcm.layout import Layout, mix_shards, read_lock, source_shards

KINDS = ("in", "kept", "review", "dropped", "rejected")


def source_counts(recipe: Recipe, layout: Layout) -> list[dict[str, Any]]:
    """One row a source: its settings and state, records by KINDS, reasons, found (secrets, personal data)."""
    return [source_row(recipe, layout, name) for name in recipe.sources]


def source_row(recipe: Recipe, layout: Layout, name: str) -> dict[str, Any]:
    shards = source_shards(recipe, name)
    paths = [path for shard in shards if (path := layout.cleaning_summary(name, shard)).is_file()]
    totals: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    found: Counter[str] = Counter()
    for summary in map(read_json, paths):
        totals.update({kind: summary[kind] for kind in KINDS})
        reasons.update(summary["reasons"])
        reasons.update(summary["rejected_reasons"])
        found.update(summary["found"])
    section = recipe.sources[name]
    state = "done" if len(paths) == len(shards) else "running" if paths else "waiting"
    return {
        "name": name,
        "kind": section.kind,
        "category": section.category,
        "stage": section.stage,
        "shards": len(shards),
        "shards_done": len(paths),
        "state": state,
        "reasons": by_count(reasons),
        "found": by_count(found),
        **{kind: totals[kind] if paths else None for kind in KINDS},
        "assumed": lock_assumed(recipe, name),
    }


def by_count(counter: Counter[str]) -> dict[str, int]:
    return dict(sorted(counter.items(), key=lambda item: (-item[1], item[0])))


def lock_assumed(recipe: Recipe, name: str) -> bool:
    """Whether the source's shard list was assumed, not published."""
    lock = getattr(recipe.sources[name], "lock", None)
    if lock is None:
        return False
    return bool(Path(lock).exists() and read_lock(Path(lock), name).get("assumed"))


def adopted_plan(recipe: Recipe, layout: Layout, name: str) -> dict[str, Any] | None:
    """What a plan would say of a mix that was adopted as tokens; None until all its shards are."""
    paths = [layout.mix(name) / f"{shard}.json" for shard in mix_shards(recipe, name)]
    if not all(path.is_file() for path in paths):
        return None
    shards = [read_json(path) for path in paths]
    return {key: sum(shard[key] for shard in shards) for key in ("tokens", "documents")}


def mix_counts(recipe: Recipe, layout: Layout) -> list[dict[str, Any]]:
    """One row a mix: its settings, state, quota, tokens, documents, and of each source the same."""
    return [mix_row(recipe, layout, name) for name in recipe.mixes]


def mix_row(recipe: Recipe, layout: Layout, name: str) -> dict[str, Any]:
    mix = recipe.mixes[name]
    plan = read_json(layout.plan(name)) if layout.plan(name).is_file() else None
    dataset = read_json(layout.dataset(name)) if layout.dataset(name).is_file() else None
    if mix.prefixes:
        plan = adopted_plan(recipe, layout, name)
    total = sum(mix.sources.values()) or 1
    rows = []
    for source, weight in mix.sources.items():
        got = (plan or {}).get("sources", {}).get(source, {})
        rows.append(
            {
                "name": source,
                "share": None if mix.tokens is None else weight / total,
                "quota": got.get("quota_tokens"),
                "tokens": got.get("tokens"),
                "documents": got.get("documents"),
                "available": got.get("available_tokens"),
                "epochs": got.get("epochs"),
                "removed": got.get("removed", {}),
            }
        )
    return {
        "name": name,
        "kind": mix.kind,
        "order": mix.order,
        "quota": mix.tokens,
        "shards": len(mix_shards(recipe, name)),
        "state": "done" if plan else "waiting",
        "assumed": mix.assumed,
        "exclude": mix.exclude,
        "tokens": plan["tokens"] if plan else None,
        "documents": plan["documents"] if plan else None,
        "sources": rows,
        "dataset": dataset,
    }
