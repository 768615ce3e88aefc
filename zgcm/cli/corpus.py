"""`zgcm raw`, `clean`, `fingerprint`, `minhash`, `contamination`, `sources`: one shard at a time."""

import json
from typing import Annotated

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

sources_app = typer.Typer(no_args_is_help=True, help="Look at a recipe's sources and lock their files.")
app.add_typer(sources_app, name="sources")

Source = Annotated[str, typer.Argument(metavar="SOURCE", help="Name of a source in the recipe.")]
Shard = Annotated[str, typer.Argument(metavar="SHARD", help="Five digits, for instance 00000.")]


@app.command()
def raw(
    source: Source,
    shard: Shard,
    recipe: RecipeOption = DEFAULT_RECIPE,
    results: ResultsOption = DEFAULT_RESULTS,
) -> None:
    """Make one raw shard: build a demo source's, fetch a hub source's, check that a local file is there.

    A fetched file must have the size and SHA-256 that its lock states. HF_ENDPOINT chooses another hub,
    HF_TOKEN opens gated datasets.
    """
    from zgcm.corpus.raw import make_raw

    loaded, layout = open_recipe(recipe, results)
    path = make_raw(loaded, layout, source, shard)
    typer.echo(f"{source} {shard}: {path}, {path.stat().st_size:,} bytes")


@app.command()
def clean(
    source: Source,
    shard: Shard,
    recipe: RecipeOption = DEFAULT_RECIPE,
    results: ResultsOption = DEFAULT_RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Clean one raw shard by the steps of its stage and category.

    Writes RESULTS/corpus/SOURCE/SHARD.jsonl.zst (kept and review), .rejected.jsonl (dropped, with reasons)
    and .summary.json (counts by step and reason, digests).
    """
    from zgcm.corpus.clean import clean_shard, summary_line

    loaded, layout = open_recipe(recipe, results)
    summary = clean_shard(loaded, layout, source, shard)
    typer.echo(json.dumps(summary, sort_keys=True) if as_json else summary_line(summary))


@app.command()
def fingerprint(
    source: Source,
    shard: Shard,
    recipe: RecipeOption = DEFAULT_RECIPE,
    results: ResultsOption = DEFAULT_RESULTS,
) -> None:
    """Fingerprint one cleaned shard, for deduplication across shards, sources and mixes.

    Writes RESULTS/corpus/SOURCE/SHARD.fingerprints (parquet, one row per record).
    """
    from zgcm.corpus.clean import find_cleaned
    from zgcm.corpus.fingerprint import write_fingerprints

    loaded, layout = open_recipe(recipe, results)
    cleaned = find_cleaned(loaded, layout, source, shard)
    cleaning = loaded.sources[source].cleaning
    ngram = cleaning.near_dedup_ngram if cleaning.near_dedup else None
    count = write_fingerprints(cleaned, layout.fingerprints(source, shard), ngram)
    typer.echo(f"{source} {shard}: {count:,} fingerprints")


@app.command()
def minhash(
    source: Source,
    shard: Shard,
    scheme: Annotated[
        str, typer.Option(help="Bands x rows x words of a shingle, as in a mix's near_duplicates.")
    ] = "14x8x5",
    recipe: RecipeOption = DEFAULT_RECIPE,
    results: ResultsOption = DEFAULT_RESULTS,
) -> None:
    """Hash one cleaned shard into MinHash bands, for near-duplicates across shards, sources and mixes.

    Writes RESULTS/corpus/SOURCE/SHARD.SCHEME.minhash (parquet, one row per record).
    """
    from zgcm.corpus.clean import find_cleaned
    from zgcm.corpus.minhash import parse_scheme, write_minhash

    loaded, layout = open_recipe(recipe, results)
    section = parse_scheme(scheme)
    cleaned = find_cleaned(loaded, layout, source, shard)
    count = write_minhash(cleaned, layout.minhash(source, shard, section.scheme), section)
    typer.echo(f"{source} {shard}: {count:,} texts in {section.bands} bands")


@app.command()
def contamination(
    mix: Annotated[str, typer.Argument(help="A mix of the recipe that has `decontaminate`.")],
    source: Source,
    shard: Shard,
    recipe: RecipeOption = DEFAULT_RECIPE,
    results: ResultsOption = DEFAULT_RESULTS,
    as_json: JsonOption = False,
) -> None:
    """List the documents of one cleaned shard that share a run of words with the mix's evaluation files.

    Writes RESULTS/corpus/SOURCE/SHARD.EVALUATIONS.contamination (parquet: row, evaluation, item, ngram,
    matches). Mixes with the same evaluation files share it.
    """
    from zgcm.corpus.decontaminate import contaminate_shard, summary_line

    loaded, layout = open_recipe(recipe, results)
    counts = contaminate_shard(loaded, layout, mix, source, shard)
    line = f"{source} {shard}: {summary_line(counts)}"
    typer.echo(json.dumps(counts, sort_keys=True) if as_json else line)


@sources_app.command("lock")
def lock_command(
    source: Source,
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATH]...", help="Files, directories, quoted patterns; of a `files` source."),
    ] = None,
    recipe: RecipeOption = DEFAULT_RECIPE,
) -> None:
    """Write the shard list of a source, with sizes and SHA-256, to config/sources/SOURCE.lock.

    A `files` source lists what its recipe or the command line names; a `hub` source lists the files of its
    dataset at the recipe's commit. Commit the lock: the workflow then knows its shards without the data.
    """
    from zgcm.corpus.lock import lock_source

    loaded, _ = open_recipe(recipe, DEFAULT_RESULTS)
    path, lock = lock_source(loaded, source, paths or [])
    size = sum(file["bytes"] for file in lock["files"])
    typer.echo(f"{path}: {len(lock['files'])} shards, {size:,} bytes")


@sources_app.command("show")
def show_command(recipe: RecipeOption = DEFAULT_RECIPE, as_json: JsonOption = False) -> None:
    """List the sources of a recipe: kind, stage, category, shards, lock."""
    from zgcm.corpus.lock import describe_sources

    loaded, _ = open_recipe(recipe, DEFAULT_RESULTS)
    rows = describe_sources(loaded)
    if as_json:
        print(json.dumps(rows, sort_keys=True))
        return
    titles = ("source", "kind", "stage", "category", "shards", "bytes", "from")
    table = [titles, *([str(row[title]) for title in titles] for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(titles))]
    for line in table:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
