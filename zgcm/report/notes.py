"""What a reader must know before trusting the page: what is missing, was stopped, or was only assumed."""

from typing import Any

from zgcm.config.recipe import Recipe


def collect(
    recipe: Recipe,
    rows: list[dict[str, Any]],
    sources: list[dict[str, Any]],
    mixes: list[dict[str, Any]],
) -> list[str]:
    """Sentences, the most urgent ones first."""
    return [
        *stages(rows),
        *sources_to_do(sources),
        *(f"Mix {row['name']} is not made yet." for row in mixes if row["state"] == "waiting"),
        *short_mixes(mixes),
        *(
            f"Mix {row['name']}: its weights were never published; the recipe's are an assumption."
            for row in mixes
            if row["assumed"]
        ),
        *(
            f"Source {row['name']}: its shard list is assumed, not read from the hub."
            for row in sources
            if row["assumed"]
        ),
        *left_out(recipe, sources),
        *substitutes(recipe),
    ]


def stages(rows: list[dict[str, Any]]) -> list[str]:
    said = {
        "stopped": "{stage} was stopped: {detail}.",
        "stale": "{stage} is stale, its results are shown as they were made: {detail}.",
        "interrupted": "{stage} is unfinished: {detail}.",
        "running": "{stage} is still running.",
    }
    sentences = [said[row["state"]].format(**row) for state in said for row in rows if row["state"] == state]
    waiting = [row["stage"] for row in rows if row["state"] == "waiting"]
    return sentences + ([f"Not started: {', '.join(waiting)}."] if waiting else [])


def sources_to_do(sources: list[dict[str, Any]]) -> list[str]:
    return [
        f"Source {row['name']}: {row['shards_done']} of {row['shards']} shards are cleaned."
        for row in sources
        if row["state"] != "done"
    ]


def short_mixes(mixes: list[dict[str, Any]]) -> list[str]:
    """Mixes that could not fill their quota to 99 %."""
    return [
        f"Mix {row['name']} holds {row['tokens']:,} of the {row['quota']:,} tokens asked for."
        for row in mixes
        if row["tokens"] and row["quota"] and row["tokens"] < 0.99 * row["quota"]
    ]


def left_out(recipe: Recipe, sources: list[dict[str, Any]]) -> list[str]:
    return [
        f"Source {row['name']}: {row['review']:,} records marked for review are left out of every mix."
        for row in sources
        if row["review"] and "review" not in recipe.sources[row["name"]].include
    ]


def substitutes(recipe: Recipe) -> list[str]:
    """Engines that a laptop uses in place of a cluster's."""
    local = [name for name, stage in recipe.train_stages().items() if stage.engine == "local"]
    plain = [name for name, stage in recipe.train_stages().items() if stage.fp8 is None]
    said = []
    if local:
        said.append(f"Megatron's local layers, not Transformer Engine's: {', '.join(local)}.")
    if plain:
        said.append(f"No FP8: {', '.join(plain)}.")
    return said
