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
from zgcm.files import decisions
from zgcm.files.clean import file_source
from zgcm.files.dedup import KEYS, ComparedLayout, CompareJob, compare_file
from zgcm.files.fanout import Fanout, run_all
from zgcm.files.index import IndexJob, index_file, index_in
from zgcm.files.plain import (
    Summary,
    alone,
    expand,
    in_own_words,
    output_names,
    refuse_overwriting,
    require_records,
    small_recipe,
)
from zgcm.io import DAMAGED, read_json, write_json
from zgcm.layout import mix_shards
from zgcm.records import FORMATS
from zgcm.tokens.gather import gather_shard
from zgcm.tokens.tokenizer import any_facts

MIX, SHARD = "files", "00000"


@dataclass(frozen=True)
class MixedLayout(ComparedLayout):
    """DIR/{shard}_text_document.bin/.idx, {shard}.json and duplicates.parquet; indexes of the inputs, the
    selections and the plan lie in DIR/.compared until all is done."""

    def index_prefix(self, source: str, shard: str) -> Path:
        return self.compared / "index" / source

    def plan(self, mix: str) -> Path:
        return self.compared / "selection" / "plan.json"

    def kept(self, mix: str) -> Path:
        return self.compared / "selection" / "kept.fingerprints"

    def selection(self, mix: str, shard: str) -> Path:
        return self.compared / "selection" / f"{shard}.parquet"

    def index_facts(self, source: str, shard: str) -> Path:
        facts = index_in(self.index_prefix(source, shard)).facts
        assert facts is not None
        return facts

    @property
    def finished(self) -> Path:
        """The plan, once every shard that it describes is there."""
        return self.root / "plan.json"

    def index_report(self, source: str, shard: str) -> Path:
        return index_in(self.index_prefix(source, shard)).report


@dataclass(frozen=True)
class PrepareJob:
    """A file that is fingerprinted and tokenized."""

    compare: CompareJob
    index: IndexJob

    @property
    def path(self) -> Path:
        return self.index.path


def mix_files(
    inputs: list[str],
    output: Path,
    tokenizer: Path,
    settings: dict[str, Any],
    text_fields: list[str],
    include: tuple[str, ...],
    fanout: Fanout,
    say: Callable[[str], None],
) -> Summary:
    """Mix files given as PATH or PATH=WEIGHT; returns the plan.

    `settings` are keys of a recipe's mix: tokens, order, seed, shards. Raises ZgcmError for a wrong one, and
    when a file lacks tokens for its quota.
    """
    weighted = list(map(_weighted, inputs))
    paths = [path for item, _ in weighted for path in expand([item])]
    if len(paths) != len(weighted):
        raise ZgcmError(
            "A mix takes files one by one", found=f"{len(paths)} files for {len(weighted)} arguments",
            hint="name each file with its weight: a.jsonl=0.7 b.jsonl=0.3",
        )  # fmt: skip
    require_records(paths)
    names, layout, facts = output_names(paths), MixedLayout(output), any_facts(tokenizer)
    refuse_overwriting(paths, [layout.duplicates(MIX)])
    mix = _section({name: weight for name, (_, weight) in zip(names, weighted, strict=True)}, settings)
    with alone(output):
        _refuse_other_shards(layout.finished, mix_shards(small_recipe({}, {MIX: mix}), MIX))
        jobs = [
            PrepareJob(
                CompareJob(path, name, output, tuple(text_fields), None),
                # Every record is indexed: the mix finds documents by row. Dedup decides which take part.
                IndexJob(
                    path,
                    tokenizer,
                    tuple(text_fields),
                    index_in(layout.index_prefix(name, SHARD)),
                    include=decisions.EVERY,
                    measured=True,
                ),
            )
            for path, name in zip(paths, names, strict=True)
        ]
        reports = run_all(
            prepare, jobs, fanout, lambda job, report: say(f"{job.index.path}: {report['tokens']:,} tokens")
        )
        keys = {**KEYS, "include": list(include)}
        sources = {name: file_source(path, keys) for path, name in zip(paths, names, strict=True)}
        recipe = small_recipe(sources, {MIX: mix})
        with in_own_words(f"mixes.{MIX}", str(output), option):
            reasons = deduplicate(recipe, layout, MIX)
            left_out = decisions.of_reasons(reasons)
            read = sum(report["documents"] for report in reports)
            decisions.require_some(read - sum(left_out.values()), left_out, ", ".join(inputs[:3]))
            plan = {**plan_mix(recipe, layout, MIX, facts), "left_out": left_out}
        layout.finished.unlink(missing_ok=True)  # it describes all shards: none must be replaced beneath it
        for shard in mix_shards(recipe, MIX):
            gather_shard(layout, MIX, shard, facts)
        write_json(layout.finished, plan)
        shutil.rmtree(layout.compared)
        return plan


def option(key: str) -> str:
    """How the verb's user names a key of a mix."""
    return f"--{key.replace('_', '-')}"


def _refuse_other_shards(finished: Path, shards: list[str]) -> None:
    """An earlier mix of more shards would leave some that nobody can tell from the new ones."""
    known = read_json(finished)["shards"] if finished.is_file() else {}
    if not isinstance(known, dict):
        raise ZgcmError(
            "A file is not what its name says", where=str(finished), found=f"shards: {known}"[:80],
            expected="shards: {NUMBER: ...}", hint=DAMAGED,
        )  # fmt: skip
    if others := sorted(set(known) - set(shards)):
        raise ZgcmError(
            "The output holds shards of another mix", where=str(finished), found=", ".join(others[:5]),
            expected=f"at most {len(shards)} shards", hint="remove the directory, or choose another",
        )  # fmt: skip


def _section(sources: dict[str, float], settings: dict[str, Any]) -> Mix:
    if not any(sources.values()):
        raise ZgcmError("All weights are 0", found=", ".join(f"{name}=0" for name in sources),
                        hint="name each file with its weight: a.jsonl=0.7 b.jsonl=0.3")  # fmt: skip
    try:
        return Mix(sources=sources, **settings)
    except ValidationError as error:
        items = [{**item, "loc": ("mixes", "keys", *item["loc"])} for item in error.errors()]
        lines = [
            line.removeprefix("mixes.keys.").partition(": ") for item in items for line in describe(item)
        ]
        found = [
            f"weight of {key.removeprefix('sources.')}: {problem}" if key.startswith("sources.")
            else f"{option(key)}: {problem}"
            for key, _, problem in lines
        ]  # fmt: skip
        raise ZgcmError("The options are wrong", found="; ".join(found),
                        hint="zgcm mix --help lists the options") from error  # fmt: skip


def prepare(job: PrepareJob) -> Summary:
    """Fingerprint and tokenize one file, each unless an earlier run did."""
    compare_file(job.compare)
    return index_file(job.index)


def _weighted(item: str) -> tuple[str, float]:
    """PATH or PATH=WEIGHT. Raises ZgcmError for a weight that is no number."""
    path, separator, weight = item.rpartition("=")
    if not separator:
        return item, 1.0
    try:
        return path, float(weight)
    except ValueError as error:
        if Path(item).exists() or not path.endswith(FORMATS):
            return item, 1.0  # a name that holds an equals sign
        raise ZgcmError("A weight is a number", where=path, found=weight or "nothing behind the =",
                        hint=f"for instance {path}=0.7") from error  # fmt: skip
