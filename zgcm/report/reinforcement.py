"""An RL stage in the report: rewards, lengths, truncation and evaluations, and how hard its prompts were.

A mixed stage has one line a domain (`domains` of its step records), the others one line.
"""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from zgcm import numbers
from zgcm.layout import Layout
from zgcm.report import bars, curves
from zgcm.report.svg import Point
from zgcm.rundir import difficulty, runs
from zgcm.rundir.evaluations import evaluations

WIDE, NARROW = (1002.0, 360.0), (360.0, 300.0)
WIDE_LOW, NARROW_LOW = (1002.0, 220.0), (360.0, 220.0)
LENGTHS = {"mean_tokens": "all responses", "mean_tokens_right": "right ones"}

Record = dict[str, Any]


def section(layout: Layout, name: str) -> dict[str, Any]:
    """Charts in both widths, None where there is nothing to draw, and the evaluations as a table."""
    found = evaluations(layout, name)
    run = runs.current_run(layout, name)
    records = list(runs.read_lines(run / "reward.jsonl")) if run else []
    reward = curves.Reward(
        name, by_domain(records, "mean_raw_reward"), [(e.version, e.mean, e.error) for e in found]
    )
    completions = {e.completions for e in found}
    return {
        "stage": name,
        **drawn("reward", found or records, lambda *size: curves.reward_chart(reward, *size), WIDE, NARROW),
        "has_training": bool(records),
        "domains": sorted(domains(records)),
        **lengths(name, records),
        **truncation(name, records),
        **hardness(layout, name),
        "completions": f"{completions.pop():,}" if len(completions) == 1 else "",
        "evaluations": [
            {
                "version": e.version,
                "mean": numbers.percent(e.mean),
                "error": numbers.percent(e.error),
                "completions": f"{e.completions:,}",
            }
            for e in found
        ],
    }


def drawn(key: str, wanted: Any, draw: Any, wide: tuple[float, float], narrow: tuple[float, float]) -> Record:
    """`{key}_wide` and `{key}_narrow`."""
    if not wanted:
        return {f"{key}_wide": None, f"{key}_narrow": None}
    return {f"{key}_wide": Markup(draw(*wide, "wide")), f"{key}_narrow": Markup(draw(*narrow, "narrow"))}


def domains(records: Sequence[Record]) -> set[str]:
    return {domain for record in records for domain in record.get("domains", {})}


def by_domain(records: Sequence[Record], key: str) -> dict[str, list[Point]]:
    """Name of a line -> (step, value); of a stage of one domain the only name is empty."""
    if names := sorted(domains(records)):
        return {
            name: [
                (record["step"], record["domains"][name][key])
                for record in records
                if name in record.get("domains", {})
            ]
            for name in names
        }
    points = [(record["step"], record[key]) for record in records if record.get(key) is not None]
    return {"": points} if points else {}


def lengths(name: str, records: Sequence[Record]) -> Record:
    if domains(records):
        lines = by_domain(records, "mean_tokens")
    else:
        found = {said: by_domain(records, key).get("", []) for key, said in LENGTHS.items()}
        lines = {said: points for said, points in found.items() if points}
    label = f"Response tokens of {name} against training steps"
    return drawn(
        "lengths",
        lines,
        lambda *size: curves.lines_chart(lines, "tokens", label, *size),
        WIDE_LOW,
        NARROW_LOW,
    )


def truncation(name: str, records: Sequence[Record]) -> Record:
    lines = by_domain(records, "truncated")
    label = f"Truncated responses of {name} against training steps"
    return drawn(
        "truncated",
        lines,
        lambda *size: curves.lines_chart(lines, "truncated", label, *size, share=True),
        WIDE_LOW,
        NARROW_LOW,
    )


def hardness(layout: Layout, name: str) -> Record:
    """The histogram of pass rates, and what it says in words."""
    if not layout.difficulty(name).is_file():
        return {**drawn("difficulty", None, None, WIDE, NARROW), "difficulty_words": ""}
    rows, _ = difficulty.read_table(layout.difficulty(name))
    counts = difficulty.histogram(rows)
    kept = {row["passes"] for row in rows if row["kept"]}
    label = f"Training prompts of {name} by right answers of the initial policy"
    size_of = {passes: (number, passes in kept) for passes, number in counts.items()}
    return {
        **drawn(
            "difficulty", rows, lambda *size: bars.histogram(size_of, label, *size), WIDE_LOW, NARROW_LOW
        ),
        "difficulty_words": in_words(rows),
    }


def in_words(rows: Sequence[Record]) -> str:
    kept = sum(row["kept"] for row in rows)
    said = [f"{kept:,} of {len(rows):,} prompts kept"]
    for reason, words in (("too_easy", "too easy"), ("too_hard", "too hard")):
        if number := sum(row["reason"] == reason for row in rows):
            said.append(f"{number:,} {words}")
    rates = {
        domain: [row["pass_rate"] for row in rows if row["domain"] == domain]
        for domain in sorted({row["domain"] for row in rows})
    }
    means = {domain: numbers.percent(sum(found) / len(found)) for domain, found in rates.items()}
    if len(means) == 1:
        said.append(f"mean pass rate {next(iter(means.values()))}")
    else:
        said.append("mean pass rate " + ", ".join(f"{domain} {rate}" for domain, rate in means.items()))
    return "; ".join(said)
