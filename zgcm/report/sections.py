"""The words of the report's sections: what the collected numbers say, ready for the template."""

import json
from typing import Any

from zgcm import __version__
from zgcm.config.recipe import Recipe
from zgcm.io import read_json
from zgcm.layout import Layout
from zgcm.report import numbers

MANIFEST_LIMIT = 20_000  # characters shown; the export of a large model lists hundreds of files
REASONS = 5


def headline(rows: list[dict[str, Any]]) -> str:
    """What came out, in a few sentences."""
    done = [row for row in rows if row["state"] in ("done", "stale")]
    trained = [row for row in done if row["last_loss"] is not None]
    all_done = len(done) == len(rows)
    said = ["All stages are done." if all_done else f"{len(done)} of {len(rows)} stages are done."]
    if trained:
        first, last = numbers.loss(trained[0]["first_loss"]), numbers.loss(trained[-1]["last_loss"])
        said.append(
            f"Training loss went from {first} ({trained[0]['stage']}) to {last} ({trained[-1]['stage']})."
        )
    for row in done:
        if row["reward_last"] is not None:
            before, after = numbers.percent(row["reward_first"]), numbers.percent(row["reward_last"])
            said.append(f"{row['stage']} raised right answers on held-out prompts from {before} to {after}.")
    return " ".join(said)


def facts(recipe: Recipe, layout: Layout, rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The header's grid: size, tokens, time, when, where, ids and versions."""
    latest = next((row for row in reversed(rows) if row["run_id"]), None)
    records = [record for row in rows if row["run_id"] and (record := run_record(layout, row))]
    tokens = sum(row["tokens"] or 0 for row in rows)
    found: list[tuple[str, str]] = [
        ("model", f"{recipe.model.num_layers} layers × {recipe.model.hidden_size:,}"),
        ("tokens trained", numbers.count(tokens)),
        ("time", numbers.duration(sum(row["seconds"] or 0 for row in rows)) if records else "–"),
    ]
    starts = sorted(str(record["started"]) for record in records if record.get("started"))
    ends = sorted(str(record["finished"]) for record in records if record.get("finished"))
    if starts:
        found.append(("started", moment(starts[0])))
    if ends:
        found.append(("last finished", moment(ends[-1])))
    if latest:
        found.append((f"id of {latest['stage']}", latest["run_id"]))
    if records:
        found += provenance(records[-1])
    found.append(("report by", f"zgcm {__version__}"))
    return found


def provenance(record: dict[str, Any]) -> list[tuple[str, str]]:
    found = [(name, str(record[name])[:12]) for name in ("host", "commit") if record.get(name)]
    return found + [(name, str(version)) for name, version in sorted(record.get("versions", {}).items())]


def moment(text: str) -> str:
    """2026-11-29T13:20:05+00:00 -> 2026-11-29 13:20 UTC."""
    zone = " UTC" if text.endswith(("+00:00", "Z")) else ""
    return text[:16].replace("T", " ") + zone


def run_record(layout: Layout, row: dict[str, Any]) -> dict[str, Any] | None:
    path = layout.runs(row["stage"]) / row["run_id"] / "run.json"
    return read_json(path) if path.is_file() else None


def total_time(rows: list[dict[str, Any]]) -> str:
    times = [row["seconds"] for row in rows if row["seconds"] is not None]
    return numbers.duration(sum(times)) if len(times) > 1 else ""


def stage_words(layout: Layout, row: dict[str, Any]) -> dict[str, str]:
    steps, planned = row["steps"], row["planned_steps"]
    taken = f"{steps or 0:,}"
    rl = row["kind"] == "rl"
    form = numbers.percent if rl else numbers.loss
    speed = row["tokens"] / row["seconds"] if row["tokens"] and row["seconds"] else None
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
    done, shards = row["shards_done"], row["shards"]
    return {
        "name": row["name"],
        "category": row["category"],
        "assumed": row["assumed"],
        "shards": f"{shards:,}" if done == shards else f"{done:,} of {shards:,}",
        "reasons": ", ".join(reasons) or ("none" if row["in"] else "–"),
        **{
            kind: "–" if row[kind] is None else f"{row[kind]:,}"
            for kind in ("in", "kept", "review", "dropped")
        },
    }


def mix_words(row: dict[str, Any]) -> dict[str, Any]:
    said = [f"{row['order']}, {row['shards']} shard" + ("s" if row["shards"] > 1 else "")]
    if row["exclude"]:
        said.append(f"without what {', '.join(row['exclude'])} used")
    if row["duplicates"]:
        said.append(f"{row['duplicates']:,} duplicates left out")
    if row["dataset"]:
        data = row["dataset"]
        said.append(
            f"{data['train_records']:,} packed sequences, {numbers.percent(data['padding_fraction'])} padding"
        )
    return {
        "name": row["name"],
        "assumed": row["assumed"],
        "quota": numbers.count(row["quota"]) if row["quota"] else "all",
        "tokens": numbers.count(row["tokens"]),
        "documents": numbers.count(row["documents"]),
        "notes": "; ".join(said),
        "sources": [mix_source_words(source) for source in row["sources"]],
    }


def mix_source_words(source: dict[str, Any]) -> dict[str, str]:
    return {
        "name": source["name"],
        "share": numbers.percent(source["share"], 0),
        "quota": numbers.count(source["quota"]),
        "tokens": numbers.count(source["tokens"]),
        "documents": numbers.count(source["documents"]),
        "notes": "",
    }


def details(layout: Layout, row: dict[str, Any]) -> dict[str, Any]:
    """One stage's own files, whole: what decides it, who ran it, its checkpoint or export."""
    parts: list[tuple[str, str]] = []
    stage = row["stage"]
    run = layout.runs(stage) / row["run_id"] if row["run_id"] else None
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
