"""What a reader must know before trusting the page: what is missing, was stopped, or was only assumed."""

from typing import Any

from zgcm.config.recipe import Recipe
from zgcm.report.recipe import assumed_bounds


def collect(
    recipe: Recipe,
    rows: list[dict[str, Any]],
    sources: list[dict[str, Any]],
    mixes: list[dict[str, Any]],
) -> list[str]:
    """Sentences, the most urgent ones first."""
    assumed_mixes = [row["name"] for row in mixes if row["assumed"]]
    assumed_lists = [row["name"] for row in sources if row["assumed"]]
    return [
        *stages(rows),
        *listed("Sources not cleaned yet", [shards_done(row) for row in sources if row["state"] != "done"]),
        *listed("Mixes not made yet", [row["name"] for row in mixes if row["state"] == "waiting"]),
        *short_mixes(mixes),
        *listed("Mixes whose weights were never published; the recipe's are an assumption", assumed_mixes),
        *listed("Sources whose shard list is assumed, not read from the hub", assumed_lists),
        *listed("Pass rates that choose prompts, never published and assumed", assumed_bounds(recipe)),
        *left_out(recipe, sources),
        *substitutes(recipe),
    ]


def listed(said: str, names: list[str]) -> list[str]:
    return [f"{said}: {', '.join(names)}."] if names else []


def shards_done(row: dict[str, Any]) -> str:
    part = f" ({row['shards_done']} of {row['shards']} shards are)" if row["shards_done"] else ""
    return row["name"] + part


def stages(rows: list[dict[str, Any]]) -> list[str]:
    said = {
        "stopped": "{stage} was stopped: {detail}.",
        "stale": "{stage} is stale, its results are shown as they were made: {detail}.",
        "interrupted": "{stage} is unfinished: {detail}.",
        "running": "{stage} is still running.",
    }
    sentences = [said[row["state"]].format(**row) for state in said for row in rows if row["state"] == state]
    waiting = [row["stage"] for row in rows if row["state"] == "waiting"]
    return sentences + listed("Not started", waiting)


def short_mixes(mixes: list[dict[str, Any]]) -> list[str]:
    """Mixes that could not fill their quota to 99 %."""
    return [
        f"Mix {row['name']} holds {row['tokens']:,} of the {row['quota']:,} tokens asked for."
        for row in mixes
        if row["tokens"] and row["quota"] and row["tokens"] < 0.99 * row["quota"]
    ]


def left_out(recipe: Recipe, sources: list[dict[str, Any]]) -> list[str]:
    waiting = [
        f"{row['name']} {row['review']:,}"
        for row in sources
        if row["review"] and "review" not in recipe.sources[row["name"]].include
    ]
    return listed("Records marked for review, left out of every mix", waiting)


def substitutes(recipe: Recipe) -> list[str]:
    """Engines that a laptop uses in place of a cluster's."""
    stages = recipe.train_stages()
    local = [name for name, stage in stages.items() if stage.engine == "local"]
    plain = [name for name, stage in stages.items() if stage.fp8 is None]
    return listed("Megatron's local layers, not Transformer Engine's", every(local, len(stages))) + listed(
        "No FP8", every(plain, len(stages))
    )


def every(names: list[str], total: int) -> list[str]:
    return ["every training stage"] if names and len(names) == total else names
