"""Clean one shard: raw records in, three files out (cleaned, rejected, summary)."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zgcm import identity
from zgcm.config.recipe import Recipe
from zgcm.corpus.adapters import adapt, adopt
from zgcm.corpus.decisions import split_trace
from zgcm.corpus.order import cleaning_settings, step_order
from zgcm.corpus.pipeline import run_steps
from zgcm.corpus.raw import find_raw, require_shard
from zgcm.corpus.rejects import Rejects
from zgcm.corpus.sample import DROP, REVIEW, is_cleaned
from zgcm.corpus.steps import adopted
from zgcm.corpus.steps.sensitive import count_findings
from zgcm.errors import ZgcmError
from zgcm.io import sha256_file, write_json
from zgcm.layout import Layout, cleaned_shard, raw_part
from zgcm.records import Record, open_records, read_checked
from zgcm.records.lines import part_bytes

REJECTED_CHARS = 2000
"""Longer strings of dropped records are cut: the file is for looking at, the digest is of the whole."""


def clean_shard(
    recipe: Recipe,
    layout: Layout,
    source: str,
    shard: str,
    watch: Callable[[int], None] = lambda records: None,
) -> dict[str, Any]:
    """Clean a shard and return its summary. Streams: memory holds one record.

    `watch` hears how many records were seen.
    Lines that are no record are filed among the rejected ones. Raises ZgcmError for a shard that is missing,
    damaged, without records or any text, or with more bad lines than the source allows; then no summary is
    left, which is written last.
    """
    section = require_shard(recipe, source, shard)
    raw, part = find_raw(recipe, layout, source, shard), raw_part(recipe, source, shard)
    order = step_order(section.stage, section.category, section.profile)
    clean_already = getattr(section, "cleaned", False)
    steps, read = (adopted.STEPS, adopt) if clean_already else (order, adapt)
    settings = cleaning_settings(section)
    counters: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    found: Counter[str] = Counter()
    characters = texts = written = 0
    fields: list[str] = []
    cleaned, rejected = layout.cleaned(source, shard), layout.rejected(source, shard)
    layout.cleaning_summary(source, shard).unlink(missing_ok=True)  # it must not describe newer files
    with open_records(cleaned) as write, open_records(rejected) as reject:
        rejects = Rejects(reject)
        samples = read(read_checked(raw, part, rejects), section, source, shard)
        for sample in run_steps(samples, steps, settings, counters):
            watch(counters["input"])
            if sample.reasons:
                reasons.update(sample.reasons)
            count_findings(sample.metrics, found)
            texts += bool(sample.text())
            fields = fields or list(sample.data)
            if sample.decision == DROP:
                reject(shorten(sample.record()))
                continue
            for item in split_trace(sample, section.mdp, settings) if section.mdp else (sample,):
                written += 1
                characters += len(item.text())
                write(item.record())
        lines = counters["input"] + rejects.count
        rejects.check(lines, section.max_bad_fraction, f"sources.{source}.max_bad_fraction")
        if not counters["input"]:
            raise ZgcmError(
                "There is no record to clean", where=str(raw), expected="at least one JSON object",
                hint="leave the file out" if part.of == 1 else f"lower sources.{source}.shards_per_file",
            )  # fmt: skip
        if not texts and is_cleaned(dict.fromkeys(fields)):
            raise ZgcmError(
                "These records are clean already", where=str(raw), found="records that a cleaner wrote",
                hint="take them as they are; a source of a recipe says cleaned: true",
            )  # fmt: skip
        if not texts:  # not a matter of quality: the text lies in a field that nobody named
            raise ZgcmError(
                "No record has a text", where=str(raw),
                found=f"the fields {', '.join(map(str, fields))}; dropped: {_most_common(reasons)}",
                expected=f"text in {', '.join(section.text_fields)}",
                hint=f"name its field in sources.{source}.text_fields",
            )  # fmt: skip
    summary = {
        "source": source,
        "shard": shard,
        "dataset": section.dataset or source,
        "stage": section.stage,
        "category": section.category,
        **({"adopted": True} if clean_already else {}),
        "pipeline": [step.__name__ for step in steps],
        "in": lines,
        "kept": counters["output.keep"],
        "review": counters["output.review"],
        "dropped": counters["output.drop"],
        "rejected": rejects.count,
        "written": written,
        "reasons": dict(reasons),
        "rejected_reasons": dict(rejects.reasons),
        "found": dict(found),
        "counters": dict(counters),
        "characters": characters,
        "bytes_in": part_bytes(raw, part),
        "bytes_out": cleaned.stat().st_size,
        "output_sha256": sha256_file(cleaned),
        "rejected_sha256": sha256_file(rejected),
        "recipe_id": identity.recipe_id(recipe, "clean", source),
    }
    write_json(layout.cleaning_summary(source, shard), summary)
    return summary


def find_cleaned(recipe: Recipe, layout: Layout, source: str, shard: str) -> Path:
    """The cleaned shard. Raises ZgcmError when the recipe has no such shard or it was not cleaned yet."""
    require_shard(recipe, source, shard)
    return cleaned_shard(layout, source, shard)


def shorten(record: Record) -> Record:
    """The record with every string of its data cut to REJECTED_CHARS characters."""
    return {**record, "data": _short(record["data"])}


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= REJECTED_CHARS else value[:REJECTED_CHARS] + "…"
    if isinstance(value, dict):
        return {key: _short(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_short(item) for item in value]
    return value


def summary_line(summary: dict[str, Any]) -> str:
    """What a person reads when the verb ends."""
    counts = f"{summary['in']:,} records in, {summary['kept']:,} kept"
    others = [
        f"{summary[name]:,} {label}"
        for name, label in ((REVIEW, "for review"), ("dropped", "dropped"), ("rejected", "not readable"))
        if summary[name]
    ]
    if summary["written"] != summary["kept"] + summary[REVIEW]:  # traces, split into decisions
        others.append(f"{summary['written']:,} samples written")
    common = _most_common(Counter(summary["reasons"]) + Counter(summary["rejected_reasons"]))
    why = f" ({common})" if common else ""
    return f"{summary['source']} {summary['shard']}: {', '.join([counts, *others])}{why}"


def _most_common(reasons: Counter[str]) -> str:
    return ", ".join(f"{reason} {count:,}" for reason, count in reasons.most_common(3))
