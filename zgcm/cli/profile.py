"""`zgcm profile`: look at a raw dataset and draft its source."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zgcm.cli.opened import Opened, recipe_verb

if TYPE_CHECKING:
    from zgcm.corpus.survey import Survey
    from zgcm.records.lines import Part

SHOWN_VALUES = 5


@recipe_verb()
def profile(
    opened: Opened,
    where: Annotated[
        list[str], typer.Argument(metavar="FILE | SOURCE SHARD", help="A raw file, or a shard of the recipe.")
    ],
    limit: Annotated[
        int, typer.Option(min=0, help="Records to look at, from the beginning; 0: all.")
    ] = 10_000,
    draft: Annotated[
        bool, typer.Option("--draft", help="Print a source for the recipe to start from, as YAML.")
    ] = False,
) -> None:
    """Look at a raw dataset: fields, types, lengths, languages, duplicates, noise. Changes nothing.

    zgcm profile notes.jsonl.zst                   what is in it

    zgcm profile notes.jsonl.zst --draft           a source block to start from

    zgcm profile demo_code 00000 --limit 0         all of a shard of the recipe

    Reads .jsonl, .jsonl.gz, .jsonl.zst and .parquet, streaming; lines that are no records are counted.
    Languages are guesses.
    """
    from zgcm.corpus.draft import draft_source, draft_yaml
    from zgcm.corpus.survey import survey

    path, part, name = _raw_file(opened, where)
    found = survey(path, limit, part, lambda records: typer.echo(f"{records:,} records", err=True))
    drafted = {"draft": draft_source(found)} if draft else {}
    line = draft_yaml(found, name).rstrip() if draft else "\n".join(_lines(found))
    opened.say({**found.summary(), **drafted}, line)


def _raw_file(opened: Opened, where: list[str]) -> tuple[Path, "Part", str]:
    """The file, the part of it, and the source's name when it is one of the recipe's."""
    from zgcm.corpus.raw import find_raw
    from zgcm.errors import ZgcmError
    from zgcm.layout import raw_part
    from zgcm.records import record_format
    from zgcm.records.find import require_regular
    from zgcm.records.lines import WHOLE

    if len(where) == 1:
        record_format(Path(where[0]))
        require_regular(Path(where[0]))
        return Path(where[0]), WHOLE, ""
    if len(where) > 2:
        raise ZgcmError("One dataset at a time", found=" ".join(where), expected="FILE, or SOURCE SHARD")
    recipe = opened.recipe
    return find_raw(recipe, opened.layout, *where), raw_part(recipe, *where), where[0]


def _lines(found: "Survey") -> Iterator[str]:
    from zgcm.terminal import aligned, wrapped

    told = found.summary()
    rows = [("field", "present", "type", "mean", "p50", "p95", "max", "example")]
    for item in told["fields"]:
        length = item.get("length", {})
        numbers = [f"{length[key]:,.0f}" if length else "" for key in ("mean", "p50", "p95", "max")]
        example = _values(item["values"]) if "values" in item else item["example"]
        rows.append((item["name"], f"{item['present']:.1%}", "/".join(item["types"]), *numbers, example))
    yield from aligned(rows, right={1, 3, 4, 5, 6})
    yield ""
    for line in _findings(found, told):
        yield from wrapped(line)


def _findings(found: "Survey", told: dict[str, Any]) -> Iterator[str]:
    from zgcm.corpus.noise import ADVICE
    from zgcm.numbers import counted

    characters = told["characters"]
    yield (
        f"text        {characters['mean']:,.0f} characters on average, "
        f"median {characters['p50']:,}, 95 % below {characters['p95']:,}, longest {characters['max']:,}"
    )
    yield f"languages   {_shares(told['languages']) or 'none'}"
    yield f"duplicates  {told['duplicate_share']:.1%} repeat an earlier text"
    for index, (noise, share) in enumerate(told["noise"].items()):
        yield f"{'noise' if not index else '':10}  {share:.1%} {noise}: {ADVICE[noise]}"
    if found.fields_left_out:
        shown = f"the first {len(found.fields):,} are shown"
        yield f"fields      {shown}; {found.fields_left_out:,} values of others are left out"
    if found.bad_lines:
        yield f"bad lines   {found.bad_lines:,}; the first: {found.first_bad_line}"
    whole = "all" if found.complete else "the first"
    yield f"{found.path}: {whole} {counted(found.records, 'record')}; --draft prints a source to start from"


def _values(values: dict[str, int]) -> str:
    shown = [f"{value or '(empty)'} {count:,}" for value, count in list(values.items())[:SHOWN_VALUES]]
    return ", ".join([*shown, *(["…"] if len(values) > SHOWN_VALUES else [])])


def _shares(shares: dict[str, float]) -> str:
    return ", ".join(f"{name} {share:.1%}" for name, share in list(shares.items())[:SHOWN_VALUES])
