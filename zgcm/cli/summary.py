"""The short table at the end of `zgcm run`: what each stage did, read from its `done` and its benchmark."""

import csv
from pathlib import Path
from typing import Any

from zgcm.config.load import load_recipe
from zgcm.config.recipe import Recipe
from zgcm.io import read_json
from zgcm.layout import Layout

HEADER = ("stage", "steps", "tokens", "loss first -> last", "time")


def summary(directory: Path) -> list[str]:
    """Lines of the table for the finished stages of `directory`/results, and the report's path.

    The recipe is the one that stamped the results. Empty when nothing has run there.
    """
    layout = Layout(directory / "results")
    if not layout.stamp.exists():
        return []
    recipe = load_recipe([directory / read_json(layout.stamp)["recipe"]])
    done = {name: read_json(layout.done(name)) for name in recipe.stages if layout.done(name).exists()}
    rows = [HEADER, *(stage_row(recipe, layout, name, done) for name in done)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    if layout.report.exists():
        lines += ["", f"Report: {layout.report}"]
    return [line.rstrip() for line in lines]


def stage_row(recipe: Recipe, layout: Layout, name: str, done: dict[str, dict[str, Any]]) -> tuple[str, ...]:
    """The cells of one stage; a stage that continues another counts its own steps and tokens only."""
    facts, stage = done[name], recipe.stages[name]
    if stage.kind == "rl":
        reward = f"reward {facts['reward_first']:.3f} -> {facts['reward_last']:.3f}"
        return name, f"{facts['steps']:,}", "", reward, duration(layout, "rl", name)
    before = done.get(str(stage.init), {}) if stage.continues else {}
    steps, tokens = (facts[key] - before.get(key, 0) for key in ("iteration", "consumed_tokens"))
    loss = f"{facts['first_loss']:.2f} -> {facts['final_loss']:.2f}"
    return name, f"{steps:,}", f"{tokens:,}", loss, duration(layout, "train", name)


def duration(layout: Layout, rule: str, stage: str) -> str:
    """Wall time of the job that finished the stage, from Snakemake's benchmark."""
    path = layout.root / "benchmarks" / rule / f"{stage}.tsv"
    if not path.exists():
        return ""
    with path.open() as stream:
        seconds = float(next(csv.DictReader(stream, delimiter="\t"))["s"])
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
