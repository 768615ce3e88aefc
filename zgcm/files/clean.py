"""`zgcm clean IN... --output DIR`: each file through the cleaning steps, as a source of its own."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from zgcm.config.corpus import FileSource
from zgcm.config.explain import describe
from zgcm.config.profiles import profile_identity, profile_problems
from zgcm.corpus.clean import clean_shard
from zgcm.errors import ZgcmError
from zgcm.files.fanout import Fanout, run_all
from zgcm.files.plain import Summary, expand, finished, output_names, small_recipe, stamp, watch
from zgcm.io import write_json
from zgcm.layout import Layout
from zgcm.versions import VERSIONS

SHARD = "00000"
COUNTS = ("in", "kept", "review", "dropped", "rejected", "characters")


@dataclass(frozen=True)
class CleanedLayout(Layout):
    """DIR/NAME.jsonl.zst, .rejected.jsonl and .summary.json, whatever the shard is called."""

    def cleaned(self, source: str, shard: str) -> Path:
        return self.root / f"{source}.jsonl.zst"

    def rejected(self, source: str, shard: str) -> Path:
        return self.root / f"{source}.rejected.jsonl"

    def cleaning_summary(self, source: str, shard: str) -> Path:
        return self.root / f"{source}.summary.json"


@dataclass(frozen=True)
class CleanJob:
    """A file, what it is called, and the keys of its source."""

    path: Path
    name: str
    output: Path
    keys: dict[str, Any]


def clean_files(
    inputs: list[str], output: Path, keys: dict[str, Any], fanout: Fanout, say: Callable[[str], None]
) -> Summary:
    """Clean every file into `output`; returns the counts of all and of each.

    `keys` are those of a source in a recipe: stage, category, text_fields, cleaning, ... Raises ZgcmError
    when a file fails.
    """
    paths = expand(inputs)
    file_source(paths[0], keys)  # a wrong key is one error, not one a file
    jobs = [CleanJob(path, name, output, keys) for path, name in zip(paths, output_names(paths), strict=True)]
    summaries = run_all(clean_file, jobs, fanout, lambda job, summary: say(clean_line(job, summary)))
    total = {name: sum(summary[name] for summary in summaries) for name in COUNTS}
    reasons = sum((Counter(summary["reasons"]) for summary in summaries), Counter[str]())
    whole = {**total, "reasons": dict(reasons.most_common()), "files": summaries}
    return whole


def clean_file(job: CleanJob) -> Summary:
    """Clean one file, unless an earlier run did with the same content and keys."""
    layout = CleanedLayout(job.output)
    summary_path = layout.cleaning_summary(job.name, SHARD)
    keys = dict(job.keys)
    if keys.get("profile") is not None:
        keys["profile"] = profile_identity(keys["profile"])
    stamped = stamp(job.path, keys=keys, version=VERSIONS["clean"], name=job.name)
    outputs = [layout.cleaned(job.name, SHARD), layout.rejected(job.name, SHARD)]
    if (known := finished(summary_path, stamped, outputs)) is not None:
        return {**known, "skipped": True}
    summary_path.unlink(missing_ok=True)
    recipe = small_recipe({job.name: file_source(job.path, job.keys)})
    summary = {**clean_shard(recipe, layout, job.name, SHARD, watch(job.path)), **stamped}
    write_json(summary_path, summary)
    return summary


def file_source(path: Path, keys: dict[str, Any]) -> FileSource:
    """The source block of a file. Raises ZgcmError for keys that no source has."""
    try:
        source = FileSource.model_validate({"kind": "files", "files": [str(path)], **keys})
    except ValidationError as error:
        items = [{**item, "loc": ("sources", "keys", "files", *item["loc"])} for item in error.errors()]
        found = [line.removeprefix("sources.keys.") for item in items for line in describe(item)]
        raise ZgcmError(
            "The settings are not those of a source", found="; ".join(found),
            hint="docs/recipe.md explains every key of a source",
        ) from error  # fmt: skip
    if problems := list(profile_problems(source)):
        raise ZgcmError("The profile does not fit", where="profile", found="; ".join(problems))
    return source


def clean_line(job: CleanJob, summary: Summary) -> str:
    counts = ", ".join(f"{summary[name]:,} {name}" for name in COUNTS[:-1])
    return f"{job.path}: {'done before; ' if summary.get('skipped') else ''}{counts}"


def total_line(total: Summary, output: Path) -> str:
    counts = ", ".join(f"{total[name]:,} {name}" for name in COUNTS[:-1])
    return f"{output}: {len(total['files']):,} files, {counts}"
