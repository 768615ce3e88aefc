"""Verbs of the token files: tokenizer, index, dedup, mix, gather, pack, pack-summary."""

import json
from typing import Annotated, Any

import typer

from zgcm.cli.app import (
    DEFAULT_RECIPE,
    DEFAULT_RESULTS,
    JsonOption,
    RecipeOption,
    ResultsOption,
    app,
    open_recipe,
)
from zgcm.config.recipe import Recipe
from zgcm.errors import ZgcmError
from zgcm.layout import mix_shards, source_shards

SourceArgument = Annotated[str, typer.Argument(help="A source of the recipe.")]
ShardArgument = Annotated[str, typer.Argument(help="Its shard: 00000, 00001, ...")]
MixArgument = Annotated[str, typer.Argument(help="A mix of the recipe.")]
OutputShardArgument = Annotated[str, typer.Argument(help="The mix's output shard: 00000, 00001, ...")]


@app.command()
def tokenizer(
    recipe: RecipeOption = DEFAULT_RECIPE,
    results: ResultsOption = DEFAULT_RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Train the recipe's tokenizer on cleaned text, or import it from a directory."""
    from zgcm.tokens.tokenizer import make_tokenizer

    loaded, layout = open_recipe(recipe, results)
    facts = make_tokenizer(loaded, layout)
    _say(
        facts,
        as_json,
        f"tokenizer ({facts['kind']}): {facts['vocab_size']:,} tokens, end {facts['end_token']} = "
        f"{facts['end_id']}, in {layout.tokenizer}",
    )


@app.command()
def index(
    source: SourceArgument,
    shard: ShardArgument,
    recipe: RecipeOption = DEFAULT_RECIPE,
    results: ResultsOption = DEFAULT_RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Tokenize a cleaned shard into Megatron's .bin/.idx, checked against `tokenizers` on a sample."""
    from zgcm.tokens.index import index_shard

    loaded, layout = open_recipe(recipe, results)
    _known("source", source, list(loaded.sources))
    _known("shard", shard, source_shards(loaded, source))
    report = index_shard(loaded, layout, source, shard)
    _say(
        report,
        as_json,
        f"{source}/{shard}: {report['documents']:,} documents, {report['tokens']:,} tokens "
        f"({report['dtype']}); tokenizers agrees on {report['parity']['documents']:,} documents",
    )


@app.command()
def dedup(
    mix: MixArgument,
    recipe: RecipeOption = DEFAULT_RECIPE,
    results: ResultsOption = DEFAULT_RESULTS,
    as_json: JsonOption = False,
) -> None:
    """List the rows that a mix leaves out: repeated texts, excluded mixes' texts, decisions not included."""
    from zgcm.corpus.dedup import deduplicate

    loaded, layout = open_recipe(recipe, results)
    _known("mix", mix, list(loaded.mixes))
    counts = deduplicate(loaded, layout, mix)
    text = ", ".join(f"{count:,} {reason}" for reason, count in counts.items()) or "nothing"
    _say(counts, as_json, f"mix {mix} leaves out: {text}")


@app.command(name="mix")
def mix_(
    mix: MixArgument,
    recipe: RecipeOption = DEFAULT_RECIPE,
    results: ResultsOption = DEFAULT_RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Choose a mix's documents by quota and put them in order; fails early when a source lacks tokens."""
    from zgcm.corpus.mix import plan_mix

    loaded, layout = open_recipe(recipe, results)
    _known("mix", mix, list(loaded.mixes))
    plan = plan_mix(loaded, layout, mix)
    parts = ", ".join(f"{source} {facts['tokens']:,}" for source, facts in plan["sources"].items())
    _say(plan, as_json, f"mix {mix}: {plan['documents']:,} documents, {plan['tokens']:,} tokens ({parts})")


@app.command()
def gather(
    mix: MixArgument,
    shard: OutputShardArgument,
    recipe: RecipeOption = DEFAULT_RECIPE,
    results: ResultsOption = DEFAULT_RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Copy the tokens of a mix's output shard, document by document, in the planned order."""
    from zgcm.tokens.gather import gather_shard

    loaded, layout = open_recipe(recipe, results)
    _known_mix(loaded, mix, "documents", shard)
    facts = gather_shard(layout, mix, shard)
    _say(facts, as_json, f"{mix}/{shard}: {facts['documents']:,} documents, {facts['tokens']:,} tokens")


@app.command()
def pack(
    mix: MixArgument,
    shard: OutputShardArgument,
    recipe: RecipeOption = DEFAULT_RECIPE,
    results: ResultsOption = DEFAULT_RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Pack the conversations of a mix's output shard into sequences for fine-tuning."""
    from zgcm.tokens.pack import pack_shard

    loaded, layout = open_recipe(recipe, results)
    _known_mix(loaded, mix, "packed", shard)
    facts = pack_shard(loaded, layout, mix, shard)
    _say(
        facts,
        as_json,
        f"{mix}/{shard}: {facts['conversations']:,} conversations in {facts['sequences']:,} sequences of "
        f"{facts['sequence_length']:,}, {facts['padding_fraction']:.1%} padding; left out: "
        f"{facts['too_long']:,} too long, {facts['without_loss']:,} with nothing to learn",
    )


@app.command(name="pack-summary")
def pack_summary(
    mix: MixArgument,
    recipe: RecipeOption = DEFAULT_RECIPE,
    results: ResultsOption = DEFAULT_RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Add up a packed mix's shards into dataset.json, from which training derives its iterations."""
    from zgcm.tokens.pack import summarize

    loaded, layout = open_recipe(recipe, results)
    _known_mix(loaded, mix, "packed")
    dataset = summarize(loaded, layout, mix)
    _say(
        dataset,
        as_json,
        f"mix {mix}: {dataset['train_records']:,} packed sequences, {dataset['train_tokens']:,} tokens, "
        f"{dataset['learned_tokens']:,} of them learned",
    )


def _say(value: Any, as_json: bool, line: str) -> None:
    typer.echo(json.dumps(value, sort_keys=True) if as_json else line)


def _known(what: str, name: str, names: list[str]) -> None:
    if name not in names:
        raise ZgcmError(f"The recipe has no such {what}", found=name, expected=", ".join(names) or "none")


def _known_mix(recipe: Recipe, mix: str, kind: str, shard: str | None = None) -> None:
    _known("mix", mix, [name for name, section in recipe.mixes.items() if section.kind == kind])
    if shard is not None:
        _known("shard", shard, mix_shards(recipe, mix))
