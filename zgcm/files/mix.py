"""`zgcm mix FILE=WEIGHT... --tokens N --output DIR`: files without repetitions, sampled, in order."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from zgcm.config.corpus import Mix
from zgcm.config.explain import describe
from zgcm.corpus.dedup import deduplicate
from zgcm.corpus.mix import plan_mix
from zgcm.errors import ZgcmError
from zgcm.files.clean import file_source
from zgcm.files.dedup import KEYS, ComparedLayout, CompareJob, compare_file
from zgcm.files.fanout import Fanout, run_all
from zgcm.files.index import IndexJob, index_file, index_in
from zgcm.files.plain import Summary, expand, output_names, small_recipe
from zgcm.layout import mix_shards
from zgcm.tokens.gather import gather_shard

MIX, SHARD = "files", "00000"


@dataclass(frozen=True)
class MixedLayout(ComparedLayout):
    """DIR/{shard}_text_document.bin/.idx, plan.json and duplicates.parquet; indexes of the inputs lie in
    DIR/compared until all is done."""

    directory: Path = Path("tokenizer")

    @property
    def tokenizer(self) -> Path:
        return self.directory

    def index_prefix(self, source: str, shard: str) -> Path:
        return self.root / "compared" / source

    def index_facts(self, source: str, shard: str) -> Path:
        facts = index_in(self.index_prefix(source, shard)).facts
        assert facts is not None
        return facts

    def index_report(self, source: str, shard: str) -> Path:
        return index_in(self.index_prefix(source, shard)).report


@dataclass(frozen=True)
class PrepareJob:
    """A file that is fingerprinted and tokenized."""

    compare: CompareJob
    index: IndexJob


def mix_files(
    inputs: list[str],
    output: Path,
    tokenizer: Path,
    settings: dict[str, Any],
    text_fields: list[str],
    fanout: Fanout,
    say: Callable[[str], None],
) -> Summary:
    """Mix files given as PATH or PATH=WEIGHT; returns the plan.

    `settings` are keys of a recipe's mix: tokens, order, seed, shards. Raises ZgcmError for a wrong one, and
    when a file lacks tokens for its quota.
    """
    weights = dict(map(_weighted, inputs))
    paths = [path for item in weights for path in expand([item])]
    if len(paths) != len(weights):
        raise ZgcmError(
            "A mix takes files one by one", found=f"{len(paths)} files for {len(weights)} arguments",
            hint="name each file with its weight: a.jsonl=0.7 b.jsonl=0.3",
        )  # fmt: skip
    names, layout = output_names(paths), MixedLayout(output, tokenizer)
    mix = _section(dict(zip(names, weights.values(), strict=True)), settings)
    jobs = [
        PrepareJob(
            CompareJob(path, name, output, tuple(text_fields), None),
            IndexJob(path, tokenizer, tuple(text_fields), index_in(layout.index_prefix(name, SHARD)), True),
        )
        for path, name in zip(paths, names, strict=True)
    ]
    run_all(prepare, jobs, fanout, lambda job, report: say(f"{job.index.path}: {report['tokens']:,} tokens"))
    sources = {name: file_source(path, KEYS) for path, name in zip(paths, names, strict=True)}
    recipe = small_recipe(sources, {MIX: mix})
    deduplicate(recipe, layout, MIX)
    plan = plan_mix(recipe, layout, MIX)
    for shard in mix_shards(recipe, MIX):
        gather_shard(layout, MIX, shard)
    shutil.rmtree(output / "compared")
    return plan


def _section(sources: dict[str, float], settings: dict[str, Any]) -> Mix:
    try:
        return Mix(sources=sources, **settings)
    except ValidationError as error:
        items = [{**item, "loc": ("mixes", "keys", *item["loc"])} for item in error.errors()]
        found = [line.removeprefix("mixes.keys.") for item in items for line in describe(item)]
        raise ZgcmError(
            "The settings are not those of a mix", found="; ".join(found),
            hint="docs/recipe.md explains every key of a mix",
        ) from error  # fmt: skip


def prepare(job: PrepareJob) -> Summary:
    """Fingerprint and tokenize one file, each unless an earlier run did."""
    compare_file(job.compare)
    return index_file(job.index)


def _weighted(item: str) -> tuple[str, float]:
    path, separator, weight = item.rpartition("=")
    if not separator:
        return item, 1.0
    try:
        return path, float(weight)
    except ValueError:
        return item, 1.0  # a name that holds an equals sign
