"""`zgcm raw`, `clean`, `fingerprint`, `minhash`, `contamination`, `sources`: one shard at a time."""

import os
from pathlib import Path
from typing import Annotated

import typer

from zgcm.cli import files
from zgcm.cli.app import app
from zgcm.cli.opened import Opened, recipe_verb

sources_app = typer.Typer(no_args_is_help=True, help="Look at a recipe's sources and lock their files.")
app.add_typer(sources_app, name="sources")

Source = Annotated[str, typer.Argument(metavar="SOURCE", help="Name of a source in the recipe.")]
Shard = Annotated[str, typer.Argument(metavar="SHARD", help="Five digits, for instance 00000.")]


@recipe_verb()
def raw(opened: Opened, source: Source, shard: Shard) -> None:
    """Make one raw shard: build a demo source's, fetch a hub source's, check that a local file is there.

    A fetched file must have the size and SHA-256 that its lock states. HF_ENDPOINT chooses another hub,
    HF_TOKEN opens gated datasets.
    """
    from zgcm.corpus.raw import make_raw

    path = make_raw(opened.recipe, opened.layout, source, shard)
    size = path.stat().st_size
    opened.say({"path": str(path), "bytes": size}, f"{source} {shard}: {path}, {size:,} bytes")


@recipe_verb()
def clean(
    opened: Opened,
    what: Annotated[list[str], typer.Argument(metavar="SOURCE SHARD | FILE...", help="See above.")],
    output: files.OutputOption = None,
    category: Annotated[
        str | None, typer.Option(help="Files: code, web, agentic, ..., general_text.")
    ] = None,
    stage: Annotated[str | None, typer.Option(help="Files: pretrain, midtrain or posttrain.")] = None,
    text_field: files.TextFieldOption = None,
    max_bad_fraction: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Files: lines that may be no record; more fail the file. [0.001]"),
    ] = None,
    settings: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Files: YAML, more keys of a source, as cleaning."),
    ] = None,
    shards_per_file: Annotated[
        int, typer.Option(min=1, max=99_999, help="Files: read each as so many shards, each with an output.")
    ] = 1,
    jobs: files.JobsOption = 1,
    fanout: files.FanoutOption = None,
    slurm: files.SlurmOption = None,
) -> None:
    """Clean raw records by the steps of their stage and category.

    zgcm clean SOURCE SHARD: a shard of the recipe. Writes RESULTS/corpus/SOURCE/SHARD.jsonl.zst (kept and
    review), .rejected.jsonl (dropped, with reasons, and lines that are no record) and .summary.json.

    zgcm clean FILE... --category C --stage S --output DIR: files of yours (.jsonl, .jsonl.gz, .jsonl.zst,
    .parquet; directories; quoted patterns). Writes the same three into DIR for each. Run it again to go on:
    a file with the same content and settings is skipped. One huge file: --shards-per-file 64 --jobs 8 reads
    it as 64 shards, eight at a time, without writing pieces of it to disk.
    """
    if output is None:
        files.refuse_file_options(
            "clean",
            "SOURCE SHARD",
            category=category,
            stage=stage,
            text_field=text_field,
            max_bad_fraction=max_bad_fraction,
            settings=settings,
            shards_per_file=shards_per_file if shards_per_file > 1 else None,
            fanout=fanout,
            slurm=slurm,
        )
        form = "FILE... --category C --stage S --output DIR"
        source, shard = files.names_or_teach("clean", what, "SOURCE SHARD", form)
        from zgcm.corpus.clean import clean_shard, summary_line

        summary = clean_shard(opened.recipe, opened.layout, source, shard)
        opened.say(summary, summary_line(summary))
        return
    from zgcm.config.load import read_mapping
    from zgcm.files.clean import clean_files, total_line

    keys = {} if settings is None else read_mapping(settings)
    given = {
        "category": category,
        "stage": stage,
        "text_fields": text_field,
        "max_bad_fraction": max_bad_fraction,
    }
    keys |= {key: value for key, value in given.items() if value not in (None, [])}
    sent = files.fanout(jobs, fanout, slurm, output)
    summary = clean_files(what, output, keys, shards_per_file, sent, files.progress)
    opened.say(summary, total_line(summary, output))


@recipe_verb()
def fingerprint(opened: Opened, source: Source, shard: Shard) -> None:
    """Fingerprint one cleaned shard, for deduplication across shards, sources and mixes.

    Writes RESULTS/corpus/SOURCE/SHARD.fingerprints (parquet, one row per record).
    """
    from zgcm.corpus.clean import find_cleaned
    from zgcm.corpus.fingerprint import write_fingerprints

    cleaned = find_cleaned(opened.recipe, opened.layout, source, shard)
    cleaning = opened.recipe.sources[source].cleaning
    ngram = cleaning.near_dedup_ngram if cleaning.near_dedup else None
    count = write_fingerprints(cleaned, opened.layout.fingerprints(source, shard), ngram)
    opened.say({"fingerprints": count}, f"{source} {shard}: {count:,} fingerprints")


@recipe_verb()
def minhash(
    opened: Opened,
    source: Source,
    shard: Shard,
    scheme: Annotated[
        str, typer.Option(help="Bands x rows x words of a shingle, as in a mix's near_duplicates.")
    ] = "14x8x5",
) -> None:
    """Hash one cleaned shard into MinHash bands, for near-duplicates across shards, sources and mixes.

    Writes RESULTS/corpus/SOURCE/SHARD.SCHEME.minhash (parquet, one row per record).
    """
    os.environ.setdefault("RAYON_NUM_THREADS", "1")  # rensa's threads: shards run side by side instead
    from zgcm.corpus.clean import find_cleaned
    from zgcm.corpus.minhash import parse_scheme, write_minhash

    section = parse_scheme(scheme)
    cleaned = find_cleaned(opened.recipe, opened.layout, source, shard)
    count = write_minhash(cleaned, opened.layout.minhash(source, shard, section.scheme), section)
    opened.say({"texts": count}, f"{source} {shard}: {count:,} texts in {section.bands} bands")


@recipe_verb()
def contamination(
    opened: Opened,
    mix: Annotated[str, typer.Argument(metavar="MIX", help="A mix of the recipe that has `decontaminate`.")],
    source: Source,
    shard: Shard,
) -> None:
    """List the documents of one cleaned shard that share a run of words with the mix's evaluation files.

    Writes RESULTS/corpus/SOURCE/SHARD.EVALUATIONS.contamination (parquet: row, evaluation, item, ngram,
    matches). Mixes with the same evaluation files share it.
    """
    from zgcm.corpus.decontaminate import contaminate_shard, summary_line

    counts = contaminate_shard(opened.recipe, opened.layout, mix, source, shard)
    opened.say(counts, f"{source} {shard}: {summary_line(counts)}")


@recipe_verb("lock", sources_app)
def lock_command(
    opened: Opened,
    source: Source,
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH", help="Files, directories, quoted patterns; of a `files` source."),
    ] = None,
) -> None:
    """Write the shard list of a source, with sizes and SHA-256, to config/sources/SOURCE.lock.

    A `files` source lists what its recipe or the command line names; a `hub` source lists the files of its
    dataset at the recipe's commit. Commit the lock: the workflow then knows its shards without the data.
    """
    from zgcm.corpus.locking import lock_source
    from zgcm.numbers import counted

    path, lock = lock_source(opened.recipe, source, paths or [], opened.checkout)
    size = sum(file["bytes"] for file in lock["files"])
    opened.say({"path": str(path), **lock}, f"{path}: {counted(len(lock['files']), 'shard')}, {size:,} bytes")


@recipe_verb("show", sources_app)
def show_command(opened: Opened) -> None:
    """List the sources of a recipe: kind, stage, category, shards, lock."""
    from zgcm import numbers
    from zgcm.corpus.locking import describe_sources
    from zgcm.terminal import aligned

    rows = describe_sources(opened.recipe)
    titles = ("source", "kind", "stage", "category", "shards", "bytes", "from")
    table = [titles]
    for row in rows:
        shards = "no lock" if row["shards"] is None else f"{row['shards']:,}"
        shown = {**row, "shards": shards, "bytes": numbers.byte_count(row["bytes"])}
        table.append(tuple(shown[title] for title in titles))
    opened.say(rows, "\n".join(aligned(table, right={4, 5})))
