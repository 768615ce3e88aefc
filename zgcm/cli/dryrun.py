"""What `zgcm run -n` shows of a Snakemake dry run: what would run and why, one line for jobs that differ by
their shard only, and totals. A Snakemake logger plugin, as `zgcm.cli.progress` is.
"""

import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snakemake_interface_logger_plugins.common import LogEvent

from zgcm import reasons
from zgcm.cli.progress import Teller, in_words, recipe_of_workflow, show
from zgcm.config.recipe import Recipe
from zgcm.layout import Layout
from zgcm.numbers import counted
from zgcm.report.recipe import missing
from zgcm.status import stage_state
from zgcm.terminal import GAP, noted, room, wrapped
from zgcm.train import lengths

SHOWN = ("assumed, never published", "Nothing to be done")
FORGOTTEN = "jobs have missing provenance"
END = "This was a dry-run"
WIDEST = 72  # of what a job does; longer sentences push their reason to the right
# The order of the lines: sources, mixes, stages, and what is done to each in the order of these rules.
PHASES = {
    "raw text and cleaning": ("raw", "clean", "fingerprint", "minhash", "contamination"),
    "tokenizer": ("tokenizer",),
    "tokenizing": ("index",),
    "mixes": ("dedup", "mix", "gather", "pack", "pack_summary", "adopt_tokens"),
    "training and export": ("train", "adopt", "pass_rates", "difficulty", "rl", "export"),
    "report": ("report", "preflight"),
}


@dataclass
class Job:
    """A job of the dry run. `rule` is one of PHASES: the rules of single mixes count as `mix`."""

    rule: str
    sentence: str
    why: str
    wildcards: dict[str, str]


class LogHandler(Teller):
    """Collects the jobs, and says them when Snakemake is through."""

    def __post_init__(self) -> None:
        self.told: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        message = str(record.msg)
        if getattr(record, "event", None) == LogEvent.JOB_INFO:
            self.told.append(record.__dict__)
        elif message.startswith(END):
            recipe = recipe_of_workflow()
            show(*lines(jobs_of(self.told, recipe), recipe, Layout()))
        elif FORGOTTEN in message:
            number = counted(int(message.split()[0]), "job")
            show(
                *wrapped(
                    f"Of the outputs of {number} Snakemake does not know what made them (a verb called by "
                    "hand, or results brought without their .snakemake): there it sees changed files, not "
                    "keys; zgcm looks at those of cleaning, tokens and mixes itself, and zgcm status at "
                    "those of stages"
                )
            )
        elif message.startswith(SHOWN) or record.levelno >= logging.WARNING:
            show(in_words(message))


def jobs_of(told: list[dict[str, Any]], recipe: Recipe) -> list[Job]:
    """Snakemake's job records as jobs with a reason in words, sorted by what they are about."""
    layout = Layout()
    remembered = reasons.remembered_recipes(layout.root / ".recipes")
    jobs = []
    for job in told:
        rule, wildcards, reason = job["rule_name"], dict(job["wildcards"] or {}), job["reason"]
        if rule == "all":
            continue
        changed, edited = None, []
        if step := reasons.step_of(recipe, rule, wildcards):
            changed = reasons.changed_keys(recipe, *step, reasons.old_ids(reason), layout, remembered)
            edited = reasons.edited_profiles(recipe, *step, job["output"])
        absent = any(not Path(file).exists() for file in job["output"])
        why = reasons.in_words(reason, absent, changed, edited)
        if rule.startswith("mix_") and "mix" not in wildcards:
            wildcards["mix"] = rule.removeprefix("mix_")
        kind = "mix" if rule.startswith("mix_") else rule
        jobs.append(Job(kind, job["rule_msg"] or rule, why, wildcards))
    return sorted(jobs, key=lambda job: place(job, recipe))


def place(job: Job, recipe: Recipe) -> tuple[int, int, int, str]:
    """Sort key: phase, position in the recipe of what it is about, step, shard."""
    phase, rules = next(
        ((number, rules) for number, rules in enumerate(PHASES.values()) if job.rule in rules),
        (len(PHASES), (job.rule,)),
    )
    names: dict[str, dict[str, Any]] = {"source": recipe.sources, "mix": recipe.mixes, "stage": recipe.stages}
    about = next(
        (list(known).index(job.wildcards[kind]) for kind, known in names.items() if kind in job.wildcards), 0
    )
    return phase, about, rules.index(job.rule), job.wildcards.get("shard", "")


def lines(jobs: list[Job], recipe: Recipe, layout: Layout) -> list[str]:
    groups: dict[tuple[str, ...], list[Job]] = {}
    for job in jobs:
        same = re.sub(r"\bshard \d{5}\b", "shard", job.sentence)
        why = re.sub(r"\b\d{5}\b", "", job.why)
        groups.setdefault((same, why), []).append(job)
    rows = [(together(group), group[0].why) for group in groups.values()]
    longest = [max(map(len, column), default=0) for column in zip(*rows, strict=True)] or [0, 0]
    width = min(longest[0], WIDEST, max(room() - GAP - longest[1], WIDEST // 2))
    said = noted([f"{what:<{width}}" for what, _ in rows], [why for _, why in rows])
    return [*said, "", *wrapped("\n".join(totals(jobs, recipe, layout)))]


def together(jobs: list[Job]) -> str:
    """One sentence for jobs that differ by their shard only: "Clean shards 00000 to 00047 of stage1_web"."""
    shards = [job.wildcards.get("shard", "") for job in jobs]
    if len(jobs) == 1 or not all(shards):
        return jobs[0].sentence
    gaps = int(shards[-1]) - int(shards[0]) >= len(shards)
    span = (
        f"{len(shards)} shards of {shards[0]} to {shards[-1]}"
        if gaps
        else f"shards {shards[0]} to {shards[-1]}"
    )
    return jobs[0].sentence.replace(f"shard {shards[0]}", span)


def totals(jobs: list[Job], recipe: Recipe, layout: Layout) -> list[str]:
    counts = {
        phase: number for phase, rules in PHASES.items() if (number := sum(job.rule in rules for job in jobs))
    }
    parts = ", ".join(f"{number} {phase}" for phase, number in counts.items())
    said = [f"{counted(len(jobs), 'job')} in {layout.root.absolute()}: {parts}"]
    stages = [job.wildcards["stage"] for job in jobs if job.rule in ("train", "rl")]
    if stages:
        steps = {stage: lengths.steps(recipe, layout, stage) for stage in stages}
        known = [number for number in steps.values() if number is not None]
        train = [f"{sum(known):,} steps in {counted(len(known), 'stage')}"] if known else []
        if before := sum(
            trained(jobs, recipe, layout, stage) for stage, number in steps.items() if number is not None
        ):
            train[0] += f" ({before:,} of them were trained before an interruption)"
        if unknown := [stage for stage, number in steps.items() if number is None]:
            train.append(f"{', '.join(unknown)}, whose length its data will say")
        said.append(f"To train: {', and '.join(train)}; what that costs: zgcm plan")
    return [*said, *missing(recipe, read_by(jobs)), "Nothing was done: this was a dry run"]


def trained(jobs: list[Job], recipe: Recipe, layout: Layout, stage: str) -> int:
    """Steps of a stage that its interrupted run has taken; 0 where what it starts from is made anew, since
    that makes it another run."""
    begun = {job.wildcards.get("stage") for job in jobs if job.rule in ("train", "adopt", "rl", "export")}
    later = (*PHASES["training and export"], *PHASES["report"])
    if recipe.stages[stage].init in begun or not all(job.rule in later for job in jobs):
        return 0
    row = stage_state(recipe, layout, stage)
    return int(row["step"]) if row["state"] == "interrupted" else 0


def read_by(jobs: list[Job]) -> set[str]:
    """The parts of a recipe (`sources.notes`, `stages.sft`) whose files the jobs read."""
    parts = {"source": "sources", "mix": "mixes", "stage": "stages"}
    found = {
        f"{part}.{job.wildcards[kind]}"
        for job in jobs
        for kind, part in parts.items()
        if kind in job.wildcards and job.rule != "export"
    }
    return found | {"tokenizer.path" for job in jobs if job.rule == "tokenizer"}
