"""Verbs from cleaned records to token files: tokenizer, index, inspect, dedup, mix, gather, pack, ..."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zgcm.cli import files
from zgcm.cli.app import JsonOption, app
from zgcm.cli.opened import Opened, recipe_verb, refuse_unknown
from zgcm.files import decisions
from zgcm.layout import mix_shards, source_shards

if TYPE_CHECKING:
    from zgcm.config.recipe import Recipe

MixArgument = Annotated[str, typer.Argument(metavar="MIX", help="A mix of the recipe.")]
OutputShardArgument = Annotated[
    str, typer.Argument(metavar="SHARD", help="The mix's output shard: 00000, 00001, ...")
]
INDEX_FILES = "FILE... --tokenizer DIR --output PREFIX"
PACK_FILES = "FILE... --seq-length N --tokenizer DIR --output DIR"


@recipe_verb()
def tokenizer(opened: Opened) -> None:
    """Train the recipe's tokenizer on cleaned text, or import it from a directory."""
    from zgcm.tokens.tokenizer import make_tokenizer

    facts = make_tokenizer(opened.recipe, opened.layout)
    opened.say(
        facts,
        f"tokenizer ({facts['kind']}): {facts['vocab_size']:,} tokens, end {facts['end_token']} = "
        f"{facts['end_id']}, in {opened.layout.tokenizer}",
    )


@recipe_verb()
def index(
    opened: Opened,
    what: Annotated[list[str], typer.Argument(metavar="SOURCE SHARD | FILE...", help="See above.")],
    output: files.OutputOption = None,
    tokenizer: files.TokenizerOption = None,
    text_field: files.TextFieldOption = None,
    include: files.IncludeOption = None,
    jobs: files.JobsOption = 1,
    fanout: files.FanoutOption = None,
    slurm: files.SlurmOption = None,
) -> None:
    """Tokenize records into Megatron's .bin/.idx, checked against `tokenizers` on a sample.

    zgcm index SOURCE SHARD: a cleaned shard of the recipe, into RESULTS/tokens/SOURCE/SHARD_text_document.

    zgcm index FILE... --tokenizer DIR --output PREFIX: files of yours, raw ({"text": ...} or {"messages":
    ...}) or cleaned, into PREFIX.bin, PREFIX.idx and PREFIX.index.json. Several files become one index, in
    the order given; --jobs files, or parts of a huge one, are done at once. Run it again to go on.
    """
    if output is None:
        files.refuse_file_options(
            "index",
            "SOURCE SHARD",
            tokenizer=tokenizer,
            text_field=text_field,
            include=include,
            fanout=fanout,
            slurm=slurm,
        )
        source, shard = files.names_or_teach("index", what, "SOURCE SHARD", INDEX_FILES)
        from zgcm.tokens.index import index_shard

        refuse_unknown("source", source, list(opened.recipe.sources))
        refuse_unknown("shard", shard, source_shards(opened.recipe, source))
        report = index_shard(opened.recipe, opened.layout, source, shard)
        name = f"{source}/{shard}"
    else:
        from zgcm.files.index import index_files

        directory = files.require("--tokenizer", tokenizer, f"zgcm index {INDEX_FILES}")
        spread = files.fanout(jobs, fanout, slurm, output)
        fields, chosen = text_field or ["text"], decisions.included(include)
        report = index_files(what, directory, output, fields, chosen, spread, files.progress)
        name = str(output)
    agreed = (report.get("parity") or {}).get("documents")
    checked = f"; tokenizers agrees on {agreed:,} documents" if agreed is not None else ""
    counts = f"{report['documents']:,} documents, {report['tokens']:,} tokens ({report['dtype']})"
    opened.say(report, f"{name}: {counts}{checked}{decisions.words(report.get('left_out', {}))}")


@app.command()
def inspect(
    prefix: Annotated[Path, typer.Argument(metavar="PREFIX", help="Of PREFIX.bin and PREFIX.idx.")],
    tokenizer: files.TokenizerOption = None,
    show: Annotated[int, typer.Option(min=0, help="How many of the first documents to show.")] = 3,
    quick: Annotated[bool, typer.Option(help="Check the .idx and the sizes alone, not every token.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Look into any Megatron .bin/.idx: counts, data type, first documents, and whether it is consistent.

    Reads indexes of every writer, also with several sequences a document. The exit code is 1 when something
    is inconsistent; each problem is a sentence.
    """
    import json

    from zgcm.terminal import wrapped
    from zgcm.tokens.inspect import inspect_index, summary_lines

    report = inspect_index(prefix, tokenizer, show=show, quick=quick)
    lines = wrapped("\n".join(summary_lines(report)))
    typer.echo(json.dumps(report, sort_keys=True) if as_json else "\n".join(lines))
    if report["problems"]:
        raise typer.Exit(1)


@recipe_verb()
def dedup(
    opened: Opened,
    what: Annotated[list[str], typer.Argument(metavar="MIX | FILE...", help="See above.")],
    output: files.OutputOption = None,
    near: Annotated[bool, typer.Option("--near", help="Files: near-duplicates too (MinHash).")] = False,
    threshold: Annotated[
        float, typer.Option(min=0.01, max=1, help="Files, with --near: least Jaccard of shingle sets.")
    ] = 0.8,
    text_field: files.TextFieldOption = None,
    include: files.IncludeOption = None,
    jobs: files.JobsOption = 1,
    fanout: files.FanoutOption = None,
    slurm: files.SlurmOption = None,
) -> None:
    """Leave repetitions out.

    zgcm dedup MIX: list the rows that a mix leaves out: repeated texts, excluded mixes' texts, decisions not
    included.

    zgcm dedup FILE... [--near] --output DIR: files of yours, raw or cleaned, without repeated texts, into
    DIR/NAME.jsonl.zst; what was removed and for which survivor into DIR/duplicates.parquet.
    """
    if output is not None:
        from zgcm.config.corpus import NearDuplicates
        from zgcm.files.dedup import dedup_files, dedup_line

        section = NearDuplicates(threshold=threshold) if near else None
        spread = files.fanout(jobs, fanout, slurm, output)
        fields, chosen = text_field or ["text"], decisions.included(include)
        summary = dedup_files(what, output, section, fields, chosen, spread, files.progress)
        opened.say(summary, dedup_line(summary, output))
        return
    files.refuse_file_options(
        "dedup", "MIX", near=near or None, text_field=text_field, include=include, fanout=fanout, slurm=slurm
    )
    (mix,) = files.names_or_teach("dedup", what, "MIX", "FILE... [--near] --output DIR")
    from zgcm.corpus.dedup import deduplicate

    refuse_unknown("mix", mix, list(opened.recipe.mixes))
    counts = deduplicate(opened.recipe, opened.layout, mix)
    text = ", ".join(f"{count:,} {reason}" for reason, count in counts.items()) or "nothing"
    opened.say(counts, f"mix {mix} leaves out: {text}")


@app.command()
def decontaminate(
    inputs: Annotated[list[str], typer.Argument(metavar="FILE...", help="Raw or cleaned records.")],
    against: Annotated[list[str], typer.Option(help="An evaluation file; repeat for more.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the results go.")],
    ngram: Annotated[int, typer.Option(min=1, help="Words of a run that a text may not share.")] = 13,
    shortest: Annotated[
        int, typer.Option(min=1, help="Shorter evaluation texts are sought whole, down to so many words.")
    ] = 8,
    text_field: files.TextFieldOption = None,
    include: files.IncludeOption = None,
    jobs: files.JobsOption = 1,
    fanout: files.FanoutOption = None,
    slurm: files.SlurmOption = None,
    as_json: JsonOption = False,
) -> None:
    """Leave out the records of plain files that share a run of words with evaluation files.

    Writes DIR/NAME.jsonl.zst and DIR/NAME.removed.jsonl (each with the run and the evaluation's line). In a
    recipe this is `decontaminate` of a mix.
    """
    import json

    from zgcm.config.corpus import Decontamination
    from zgcm.files.decontaminate import decontaminate_files, total_line

    section = Decontamination(against=[file or "." for file in against], ngram=ngram, shortest=shortest)
    spread = files.fanout(jobs, fanout, slurm, output)
    fields, chosen = text_field or ["text"], decisions.included(include)
    summary = decontaminate_files(inputs, output, section, fields, chosen, spread, files.progress)
    typer.echo(json.dumps(summary, sort_keys=True) if as_json else total_line(summary, output))


@recipe_verb("mix")
def mix_(
    opened: Opened,
    what: Annotated[list[str], typer.Argument(metavar="MIX | FILE=WEIGHT...", help="See above.")],
    output: files.OutputOption = None,
    tokenizer: files.TokenizerOption = None,
    tokens: Annotated[int | None, typer.Option(min=1, help="Files: quota; absent: everything once.")] = None,
    order: Annotated[
        str | None, typer.Option(help="Files: shuffled, curriculum or listed. [shuffled]")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Files: of sampling and shuffling. [0]")] = None,
    shards: Annotated[int | None, typer.Option(min=1, help="Files: number of output shards. [1]")] = None,
    max_epochs: Annotated[
        int | None, typer.Option(min=1, help="Files: how often a file may be repeated for its quota. [1]")
    ] = None,
    text_field: files.TextFieldOption = None,
    include: files.IncludeOption = None,
    jobs: files.JobsOption = 1,
    fanout: files.FanoutOption = None,
    slurm: files.SlurmOption = None,
) -> None:
    """Choose documents by quota and put them in order; fails early when a source lacks tokens.

    zgcm mix MIX: writes the selections of a mix of the recipe, which `gather` or `pack` then copies.

    zgcm mix FILE=WEIGHT... --tokens N --tokenizer DIR --output DIR: files of yours, raw or cleaned, without
    repeated texts, sampled by weight into DIR/SHARD_text_document.bin and .idx, with DIR/plan.json.
    """
    given = {"tokens": tokens, "order": order, "seed": seed, "shards": shards, "max_epochs": max_epochs}
    settings = {name: value for name, value in given.items() if value is not None}
    form = "FILE=WEIGHT... --tokens N --tokenizer DIR --output DIR"
    if output is None:
        files.refuse_file_options(
            "mix",
            "MIX",
            tokenizer=tokenizer,
            **settings,
            text_field=text_field,
            include=include,
            fanout=fanout,
            slurm=slurm,
        )
        (name,) = files.names_or_teach("mix", what, "MIX", form)
        from zgcm.corpus.mix import plan_mix

        refuse_unknown("mix", name, list(opened.recipe.mixes))
        plan = plan_mix(opened.recipe, opened.layout, name)
    else:
        from zgcm.files.mix import mix_files

        directory = files.require("--tokenizer", tokenizer, f"zgcm mix {form}")
        spread = files.fanout(jobs, fanout, slurm, output)
        fields, chosen = text_field or ["text"], decisions.included(include)
        plan = mix_files(what, output, directory, settings, fields, chosen, spread, files.progress)
        name = str(output)
    parts = ", ".join(f"{source} {facts['tokens']:,}" for source, facts in plan["sources"].items())
    counts = f"mix {name}: {plan['documents']:,} documents, {plan['tokens']:,} tokens ({parts})"
    opened.say(plan, counts + decisions.words(plan.get("left_out", {})))


@recipe_verb()
def gather(opened: Opened, mix: MixArgument, shard: OutputShardArgument) -> None:
    """Copy the tokens of a mix's output shard, document by document, in the planned order."""
    from zgcm.tokens.gather import gather_shard

    _known_mix(opened.recipe, mix, "documents", shard)
    facts = gather_shard(opened.layout, mix, shard)
    opened.say(facts, f"{mix}/{shard}: {facts['documents']:,} documents, {facts['tokens']:,} tokens")


@recipe_verb()
def pack(
    opened: Opened,
    what: Annotated[list[str], typer.Argument(metavar="MIX SHARD | FILE...", help="See above.")],
    output: files.OutputOption = None,
    seq_length: Annotated[
        int | None, typer.Option(min=1, max=2**31 - 1, help="Files: tokens of a packed sequence.")
    ] = None,
    tokenizer: files.TokenizerOption = None,
    include: files.IncludeOption = None,
    jobs: files.JobsOption = 1,
    fanout: files.FanoutOption = None,
    slurm: files.SlurmOption = None,
) -> None:
    """Pack conversations into sequences for fine-tuning.

    zgcm pack MIX SHARD: those of a mix's output shard.

    zgcm pack FILE... --seq-length N --tokenizer DIR --output DIR: those of files of yours, {"messages": ...}
    a line or cleaned, into DIR/00000_tokens, _targets and _cu_seqlens (.bin, .idx) and DIR/dataset.json.
    """
    if output is None:
        files.refuse_file_options(
            "pack",
            "MIX SHARD",
            seq_length=seq_length,
            tokenizer=tokenizer,
            include=include,
            fanout=fanout,
            slurm=slurm,
        )
        mix, shard = files.names_or_teach("pack", what, "MIX SHARD", PACK_FILES)
        from zgcm.tokens.pack import pack_shard

        _known_mix(opened.recipe, mix, "packed", shard)
        facts, name = pack_shard(opened.recipe, opened.layout, mix, shard), f"{mix}/{shard}"
    else:
        from zgcm.files.pack import pack_files

        directory = files.require("--tokenizer", tokenizer, f"zgcm pack {PACK_FILES}")
        length = files.require("--seq-length", seq_length, f"zgcm pack {PACK_FILES}")
        spread = files.fanout(jobs, fanout, slurm, output)
        chosen, name = decisions.included(include), str(output)
        facts = pack_files(what, directory, output, length, chosen, spread, files.progress)
        facts = {"sequences": facts["train_records"], **facts}
    opened.say(
        facts,
        f"{name}: {facts['conversations']:,} conversations in {facts['sequences']:,} sequences of "
        f"{facts['sequence_length']:,}, {facts['padding_fraction']:.1%} padding; left out: "
        f"{facts['too_long']:,} too long, {facts['without_loss']:,} with nothing to learn"
        + decisions.words(facts.get("left_out", {})),
    )


@recipe_verb("pack-summary")
def pack_summary(opened: Opened, mix: MixArgument) -> None:
    """Add up a packed mix's shards into dataset.json, from which training derives its iterations."""
    from zgcm.tokens.pack import summarize

    _known_mix(opened.recipe, mix, "packed")
    dataset = summarize(opened.recipe, opened.layout, mix)
    opened.say(
        dataset,
        f"mix {mix}: {dataset['train_records']:,} packed sequences, {dataset['train_tokens']:,} tokens, "
        f"{dataset['learned_tokens']:,} of them learned",
    )


def _known_mix(recipe: "Recipe", mix: str, kind: str, shard: str | None = None) -> None:
    refuse_unknown("mix", mix, [name for name, section in recipe.mixes.items() if section.kind == kind])
    if shard is not None:
        refuse_unknown("shard", shard, mix_shards(recipe, mix))
