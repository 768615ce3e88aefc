"""The words of the report's sections: what the collected numbers say, ready for the template."""

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from zgcm import __version__, numbers
from zgcm.config.plan import parameters
from zgcm.config.recipe import Recipe
from zgcm.io import read_json
from zgcm.layout import Layout
from zgcm.report.counts import KINDS
from zgcm.rundir import runs

MANIFEST_LIMIT = 20_000  # characters shown; the export of a large model lists hundreds of files
REASONS = 5


def headline(rows: list[dict[str, Any]]) -> str:
    """What came out, in a few sentences."""
    done = [row for row in rows if row["state"] in ("done", "stale")]
    all_done = len(done) == len(rows)
    said = ["All stages are done." if all_done else f"{len(done)} of {len(rows)} stages are done."]
    for row in done:
        if row["reward_last"] is not None:
            before, after = numbers.percent(row["reward_first"]), numbers.percent(row["reward_last"])
            said.append(f"{row['stage']}: mean reward on held-out prompts from {before} to {after}.")
    return " ".join(said).replace(" %", "\u00a0%")


def facts(recipe: Recipe, layout: Layout, rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The header's grid: size, tokens, time, when, where, ids and versions."""
    latest = next((row for row in reversed(rows) if row["run_id"]), None)
    records = [item for row in rows if row["run_id"] for item in runs.attempts(run_directory(layout, row))]
    tokens = sum(row["tokens"] or 0 for row in rows if row["kind"] != "rl")
    found: list[tuple[str, str]] = [
        ("parameters", numbers.count(parameters(recipe.model, recipe.tokenizer.vocab_size).total)),
        ("layers × width", f"{recipe.model.num_layers} × {recipe.model.hidden_size:,}"),
        ("tokens trained", numbers.count(tokens)),
        ("time", numbers.duration(sum(row["seconds"] or 0 for row in rows)) if records else "–"),
    ]
    if records:
        found.append(("first start", moment(min(record["started"] for record in records))))
    if ends := [record["ended"] for record in records if "ended" in record]:
        found.append(("last end", moment(max(ends))))
    if latest:
        found.append((f"id of {latest['stage']}", latest["run_id"]))
    if records:
        found += provenance(records)
    found.append(("report by", f"zgcm {__version__}"))
    return found


def provenance(records: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Of the last attempt, and the versions that any attempt names."""
    last = records[-1]
    found = [("host", str(last["host"]))]
    commits = [str(record["commit"]) for record in records if record.get("commit")]
    versions = {name: number for record in records for name, number in record["versions"].items()}
    found += [("commit", commits[-1][:13])] if commits else []
    return found + [(name, versions[name]) for name in sorted(versions) if name != "executable"]


def moment(seconds: float) -> str:
    """Seconds since the epoch -> 2026-11-29 13:20 UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def run_directory(layout: Layout, row: dict[str, Any]) -> Path:
    return layout.runs(row["stage"]) / row["run_id"]


def total_time(rows: list[dict[str, Any]]) -> str:
    times = [row["seconds"] for row in rows if row["seconds"] is not None]
    return numbers.duration(sum(times)) if len(times) > 1 else ""


def stage_words(layout: Layout, row: dict[str, Any]) -> dict[str, str]:
    steps, planned = row["steps"], row["planned_steps"]
    taken = f"{steps or 0:,}"
    rl = row["kind"] == "rl"
    form = numbers.percent if rl else numbers.loss
    speed = runs.tokens_per_second(run_directory(layout, row)) if row["run_id"] else None
    return {
        "stage": row["stage"],
        "kind": row["kind"],
        "steps": taken if planned in (None, steps) else f"{taken} of {planned:,}",
        "tokens": numbers.count(row["tokens"]),
        "first": form(row["reward_first"] if rl else row["first_loss"]),
        "last": form(row["reward_last"] if rl else row["last_loss"]),
        "time": numbers.duration(row["seconds"]),
        "speed": numbers.count(speed),
        "state": row["state"],
    }


def source_words(row: dict[str, Any]) -> dict[str, Any]:
    shown = list(row["reasons"].items())[:REASONS]
    reasons = [f"{reason} {number:,}" for reason, number in shown]
    if len(row["reasons"]) > REASONS:
        reasons.append(f"{len(row['reasons']) - REASONS} more")
    found = ", ".join(f"{kind} {number:,}" for kind, number in row["found"].items())
    notes = [", ".join(reasons), f"secrets and personal data: {found}" if found else ""]
    done, shards = row["shards_done"], row["shards"]
    return {
        "name": row["name"],
        "category": row["category"],
        "assumed": row["assumed"],
        "shards": f"{shards:,}" if done == shards else f"{done:,} of {shards:,}",
        "notes": "; ".join(filter(None, notes)),
        **{kind: "–" if row[kind] is None else f"{row[kind]:,}" for kind in KINDS},
    }


def mix_words(row: dict[str, Any]) -> dict[str, Any]:
    said = [f"{row['order']}, {numbers.counted(row['shards'], 'shard')}"]
    removed: Counter[str] = Counter()
    for source in row["sources"]:
        removed.update(source["removed"])
    if removed:
        said.append(
            "left out: " + ", ".join(f"{reason} {number:,}" for reason, number in sorted(removed.items()))
        )
    elif row["exclude"]:
        said.append(f"nothing that {', '.join(row['exclude'])} used")
    if row["dataset"]:
        data = row["dataset"]
        padding = numbers.percent(data["padding_fraction"])
        said.append(f"{data['train_records']:,} packed sequences, {padding} padding")
        if data["too_long"]:
            said.append(f"{data['too_long']:,} conversations too long")
    return {
        "name": row["name"],
        "assumed": row["assumed"],
        "quota": numbers.count(row["quota"]) if row["quota"] else "all",
        "tokens": numbers.count(row["tokens"]),
        "documents": numbers.count(row["documents"]),
        "removed": numbers.count(removed.total() if row["tokens"] else None),
        "notes": "; ".join(said),
        "sources": [mix_source_words(source) for source in row["sources"]],
    }


def mix_source_words(source: dict[str, Any]) -> dict[str, str]:
    share = "all" if source["share"] is None else numbers.percent(source["share"], 0)
    made = source["tokens"] is not None
    return {
        "name": source["name"] + (f", read {source['epochs']} times" if (source["epochs"] or 1) > 1 else ""),
        "share": share,
        "quota": numbers.count(source["quota"]),
        "tokens": numbers.count(source["tokens"]),
        "documents": numbers.count(source["documents"]),
        "removed": numbers.count(sum(source["removed"].values()) if made else None),
    }


def details(layout: Layout, row: dict[str, Any]) -> dict[str, Any]:
    """One stage's own files, whole: what decides it, who ran it, its checkpoint or export."""
    parts: list[tuple[str, str]] = []
    stage = row["stage"]
    run = run_directory(layout, row) if row["run_id"] else None
    for title, path in (
        ("done: what decides the result, and the result", layout.done(stage)),
        ("run.json: when, where and with what", run / "run.json" if run else None),
        ("stopped.json", run / "stopped.json" if run else None),
        (f"export/{stage}/manifest.json", layout.export_manifest(stage)),
    ):
        if path is not None and path.is_file():
            parts.append((title, pretty(read_json(path))))
    if not parts:
        parts.append(("nothing here yet", "–"))
    return {"name": stage, "state": row["state"], "id": row["run_id"] or "", "parts": parts}


def pretty(value: Any) -> str:
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
    if len(text) <= MANIFEST_LIMIT:
        return text
    return text[:MANIFEST_LIMIT] + f"\n… {len(text) - MANIFEST_LIMIT:,} more characters in the file"
