"""`zgcm clean IN... --output DIR`: each file through the cleaning steps, as a source of its own.

A file that is read as several shards has as many outputs, and each is done and resumed by itself.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from zgcm.config.corpus import FileSource
from zgcm.config.explain import describe
from zgcm.config.profiles import find_profile, profile_identity, profile_problems
from zgcm.config.settings import setting_problems
from zgcm.corpus.clean import clean_shard
from zgcm.errors import ZgcmError
from zgcm.files.fanout import Fanout, run_all
from zgcm.files.plain import (
    Summary,
    alone,
    content_of,
    expand,
    finished,
    in_own_words,
    output_names,
    refuse_overwriting,
    small_recipe,
    stamp,
    watch,
)
from zgcm.io import write_json
from zgcm.layout import Layout, shard_name
from zgcm.numbers import counted
from zgcm.versions import VERSIONS

WHICH_FILES = {"kind", "files", "lock", "shards_per_file"}
SHOWN = ("in", "kept", "review", "dropped", "rejected")
COUNTS = (*SHOWN, "written", "characters")
REASONS = ("reasons", "rejected_reasons", "found")
KINDS = {**dict.fromkeys(COUNTS, int), **dict.fromkeys(REASONS, dict)}
OPTIONS = {"stage": "--stage", "category": "--category", "text_fields": "--text-field",
           "max_bad_fraction": "--max-bad-fraction", "shards_per_file": "--shards-per-file"}  # fmt: skip
"""Keys of a source that are options of the verb; the others stand in the file that --settings names."""


@dataclass(frozen=True)
class CleanedLayout(Layout):
    """DIR/NAME.jsonl.zst, .rejected.jsonl and .summary.json, or of one shard of several
    DIR/NAME-00002-of-00008.jsonl.zst and so on."""

    shards: int = 1

    def cleaned(self, source: str, shard: str) -> Path:
        return self.root / f"{self.name(source, shard)}.jsonl.zst"

    def rejected(self, source: str, shard: str) -> Path:
        return self.root / f"{self.name(source, shard)}.rejected.jsonl"

    def cleaning_summary(self, source: str, shard: str) -> Path:
        return self.root / f"{self.name(source, shard)}.summary.json"

    def name(self, source: str, shard: str) -> str:
        return source if self.shards == 1 else f"{source}-{shard}-of-{shard_name(self.shards)}"


@dataclass(frozen=True)
class CleanJob:
    """A shard of a file, what the file is called, and the keys of its source."""

    path: Path
    name: str
    layout: CleanedLayout
    keys: dict[str, Any]
    shard: str = shard_name(0)
    content: Summary | None = None
    """Of a file in several shards, which would each read it whole to name its content."""


def clean_files(
    inputs: list[str],
    output: Path,
    keys: dict[str, Any],
    shards: int,
    fanout: Fanout,
    say: Callable[[str], None],
) -> Summary:
    """Clean every file, read as so many shards, into `output`; returns the counts of all and of each shard.

    `keys` are those of a source in a recipe: stage, category, text_fields, cleaning, ... Raises ZgcmError
    when a shard fails.
    """
    paths = expand(inputs)
    file_source(paths[0], keys, shards)  # a wrong key is one error, not one a file
    layout = CleanedLayout(output, shards)
    content = {path: content_of(path) if shards > 1 else None for path in paths}
    jobs = [
        CleanJob(path, name, layout, keys, shard_name(index), content[path])
        for path, name in zip(paths, output_names(paths), strict=True)
        for index in range(shards)
    ]
    written = (layout.cleaned, layout.rejected)
    refuse_overwriting(paths, [path(job.name, job.shard) for job in jobs for path in written])
    refuse_other_shards(layout, jobs)
    summaries = run_all(clean_file, jobs, fanout, lambda job, summary: say(clean_line(job, summary)))
    total: Summary = {name: sum(summary[name] for summary in summaries) for name in COUNTS}
    for name in REASONS:
        counts = sum((Counter(summary[name]) for summary in summaries), Counter[str]())
        total[name] = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    return {**total, "files": summaries}


def refuse_other_shards(layout: CleanedLayout, jobs: list[CleanJob]) -> None:
    """Raises ZgcmError when a file was cleaned as another number of shards: who reads the directory would
    read its records twice."""
    mine = {layout.cleaned(job.name, job.shard) for job in jobs}
    for name in {job.name: None for job in jobs}:
        own = re.compile(re.escape(name) + r"(-\d{5}-of-\d{5})?\.jsonl\.zst")
        found = [path for path in layout.root.glob("*.jsonl.zst") if own.fullmatch(path.name)]
        if others := sorted(set(found) - mine):
            raise ZgcmError(
                "The directory holds results of the same file in another number of shards",
                where=str(others[0]), expected=f"--shards-per-file {layout.shards} everywhere",
                hint="choose another --output directory, or remove them",
            )  # fmt: skip


def clean_file(job: CleanJob) -> Summary:
    """Clean one shard, unless an earlier run did with the same content and keys."""
    with alone(job.layout.root, job.layout.name(job.name, job.shard)):
        return _clean(job)


def _clean(job: CleanJob) -> Summary:
    layout = job.layout
    summary_path = layout.cleaning_summary(job.name, job.shard)
    keys = dict(job.keys)
    if keys.get("profile") is not None:
        keys["profile"] = profile_identity(keys["profile"])
    stamped = stamp(job.content or content_of(job.path), keys=keys, version=VERSIONS["clean"], name=job.name)
    outputs = [layout.cleaned(job.name, job.shard), layout.rejected(job.name, job.shard)]
    if (known := finished(summary_path, stamped, outputs, KINDS)) is not None:
        return {**known, "skipped": True}
    recipe = small_recipe({job.name: file_source(job.path, job.keys, layout.shards)})
    with in_own_words(f"sources.{job.name}", str(job.path), option):
        summary = {**clean_shard(recipe, layout, job.name, job.shard, watch(job.path)), **stamped}
    write_json(summary_path, summary)
    return summary


def file_source(path: Path, keys: dict[str, Any], shards: int = 1) -> FileSource:
    """The source block of a file, read as so many shards. Raises ZgcmError for keys that no source has, and
    those that say which files it reads, or which part of one."""
    if told := sorted(WHICH_FILES & keys.keys()):
        raise _wrong_settings([f"{key}: the command line says which files are read" for key in told])
    try:
        source = FileSource.model_validate(
            {"kind": "files", "files": [str(path)], "shards_per_file": shards, **keys}
        )
    except ValidationError as error:
        items = [{**item, "loc": ("sources", "keys", "files", *item["loc"])} for item in error.errors()]
        lines = [line.removeprefix("sources.keys.") for item in items for line in describe(item)]
        raise _wrong_settings(lines) from error
    if source.profile is not None:
        find_profile(source.profile)  # its own error, in whole
    problems = [f"profile: {problem}" for problem in profile_problems(source)]
    problems += [f"cleaning.settings.{key}: {problem}" for key, problem in setting_problems(source)]
    if problems:
        raise _wrong_settings(problems)
    return source


def option(key: str) -> str:
    """How the verb's user names a key of a source."""
    return OPTIONS.get(key, f"{key} in the file of --settings")


def _wrong_settings(lines: list[str]) -> ZgcmError:
    """`lines` are `key: what is wrong with it`."""
    parts = [line.removeprefix("sources.keys: ").partition(": ") for line in lines]
    return ZgcmError(
        "The settings are wrong",
        found="; ".join(f"{OPTIONS.get(key, key)}{colon}{problem}" for key, colon, problem in parts),
        hint="docs/recipe.md explains every key of a source",
    )


def clean_line(job: CleanJob, summary: Summary) -> str:
    part = "" if job.layout.shards == 1 else f" ({int(job.shard) + 1} of {job.layout.shards})"
    return f"{job.path}{part}: {'done before; ' if summary.get('skipped') else ''}{_counts(summary)}"


def total_line(total: Summary, output: Path) -> str:
    shards, files = len(total["files"]), len({summary["source"] for summary in total["files"]})
    of = f" in {counted(shards, 'shard')}" if shards > files else ""
    return f"{output}: {counted(files, 'file')}{of}, {_counts(total)}"


def _counts(summary: Summary) -> str:
    """Every record that came in; then what was written where traces were split, why records were marked or
    refused, and what the scan found."""
    counts = ", ".join(f"{summary[name]:,} {name}" for name in SHOWN)
    if summary["written"] != summary["kept"] + summary["review"]:
        counts += f", {summary['written']:,} samples written"
    reasons: Counter[str] = Counter(summary["reasons"]) + Counter(summary["rejected_reasons"])
    why = ", ".join(f"{reason} {count:,}" for reason, count in reasons.most_common(3))
    found = ", ".join(f"{kind} {count:,}" for kind, count in summary["found"].items())
    return counts + (f" ({why})" if why else "") + (f"; found: {found}" if found else "")
