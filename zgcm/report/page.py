"""Collects everything a results directory knows and writes it as one page without outside references.

    write_report(recipe, layout)        # results/report.html; also for an unfinished run

The page holds no time of its own making, so the same results give the same bytes.
"""

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from zgcm.config.recipe import Recipe
from zgcm.io import write_text
from zgcm.layout import Layout
from zgcm.report import counts, curves, dag, graph, notes, reinforcement, sections
from zgcm.report.reinforcement import NARROW, WIDE
from zgcm.report.table import first_tokens, stage_table
from zgcm.rundir import manifest, runs
from zgcm.rundir.evaluations import evaluations
from zgcm.status import STATES


def write_report(recipe: Recipe, layout: Layout) -> Path:
    """Write the report of a results directory; returns its path. Raises ZgcmError for unreadable results."""
    write_text(layout.report, render(recipe, layout))
    return layout.report


def render(recipe: Recipe, layout: Layout) -> str:
    rows = stage_table(recipe, layout)
    sources = counts.source_counts(recipe, layout)
    mixes = counts.mix_counts(recipe, layout)
    context = {
        "name": recipe.name,
        "description": recipe.description.rstrip("."),
        "headline": sections.headline(rows),
        "facts": sections.facts(recipe, layout, rows),
        "states": [
            state for state in STATES if state in {"done", "waiting"} | {row["state"] for row in rows}
        ],
        "mark": lambda state: Markup(dag.state_mark(5.5, 5.5, state)),
        **picture(recipe, layout, rows, sources, mixes),
        **losses(recipe, layout),
        "rewards": [
            reinforcement.section(layout, name)
            for name in recipe.rl_stages()
            if evaluations(layout, name) or layout.difficulty(name).is_file()
        ],
        "stages": [sections.stage_words(layout, row) for row in rows],
        "total_time": sections.total_time(rows),
        "sources": [sections.source_words(row) for row in sources],
        "mixes": [sections.mix_words(row) for row in mixes],
        "notes": notes.collect(recipe, rows, sources, mixes),
        "details": [sections.details(layout, row) for row in rows],
    }
    return template().render(context)


@cache
def template() -> jinja2.Template:
    folder = files("zgcm.report") / "templates"
    sheets = {name: (folder / name).read_text() for name in ("page.html.jinja", "style.css.jinja")}
    environment = jinja2.Environment(
        loader=jinja2.DictLoader(sheets),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template("page.html.jinja")


def picture(
    recipe: Recipe,
    layout: Layout,
    rows: list[dict[str, Any]],
    sources: list[dict[str, Any]],
    mixes: list[dict[str, Any]],
) -> dict[str, Markup]:
    """The pipeline drawn for a wide page and for a phone."""
    known = {
        "sources": {row["name"]: {"documents": row["kept"], "state": row["state"]} for row in sources},
        "tokenizer": {"state": "done" if manifest.is_complete(layout.tokenizer) else "waiting"},
        "mixes": {row["name"]: {"tokens": row["tokens"], "state": row["state"]} for row in mixes},
        "stages": {row["stage"]: row for row in rows},
        "exports": {
            name: "done" if layout.export_manifest(name).is_file() else "waiting" for name in recipe.stages
        },
    }
    drawn = graph.pipeline(recipe, known)
    return {"dag_wide": Markup(dag.wide(drawn)), "dag_narrow": Markup(dag.narrow(drawn))}


def losses(recipe: Recipe, layout: Layout) -> dict[str, Any]:
    """The loss chart in both widths, None without any loss, and what its lines mean."""
    drawn = [
        curve
        for name in recipe.train_stages()
        if (curve := curves.LossCurve(name, loss_points(recipe, layout, name))).points
    ]
    if not drawn:
        return {"loss_wide": None, "loss_narrow": None, "loss_caption": ""}
    smoothed = any(len(curve.points) >= curves.SMOOTH_FROM for curve in drawn)
    caption = "Faint: every step; strong: moving mean over a thirtieth of the stage." if smoothed else ""
    return {
        "loss_wide": Markup(curves.loss_chart(drawn, *WIDE, "wide")),
        "loss_narrow": Markup(curves.loss_chart(drawn, *NARROW, "narrow")),
        "loss_caption": caption,
    }


def loss_points(recipe: Recipe, layout: Layout, name: str) -> list[tuple[float, float]]:
    """(tokens since the stage began, loss) of every step."""
    run = runs.current_run(layout, name)
    if run is None:
        return []
    start = first_tokens(recipe, layout, name)
    return [(row["consumed_tokens"] - start, row["loss"]) for row in runs.read_lines(run / "loss.jsonl")]
