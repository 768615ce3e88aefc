"""`zgcm decontaminate FILE... --against EVAL --output DIR`: the files without texts of evaluations."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from zgcm.config.corpus import Decontamination
from zgcm.corpus.decontaminate import contamination
from zgcm.corpus.evaluations import read_evaluations
from zgcm.corpus.messages import trained_text
from zgcm.files import decisions
from zgcm.files.fanout import Fanout, run_all
from zgcm.files.index import as_documents
from zgcm.files.plain import (
    Summary,
    alone,
    content_of,
    expand,
    finished,
    kept_records,
    output_names,
    refuse_overwriting,
    require_records,
    stamp,
)
from zgcm.identity import evaluation_set
from zgcm.io import write_json
from zgcm.records import open_records
from zgcm.records.find import require_regular
from zgcm.versions import VERSIONS

KINDS = {"in": int, "removed": int, "left_out": dict, "evaluations": dict}


@dataclass(frozen=True)
class DecontaminateJob:
    """A file, what it is called, and what its texts must not share a run of words with."""

    path: Path
    name: str
    output: Path
    text_fields: tuple[str, ...]
    section: Decontamination
    include: tuple[str, ...]


def decontaminate_files(
    inputs: list[str],
    output: Path,
    section: Decontamination,
    text_fields: list[str],
    include: tuple[str, ...],
    fanout: Fanout,
    say: Callable[[str], None],
) -> Summary:
    """Write each file's other records to DIR/NAME.jsonl.zst and those that were removed, each with the run of
    words and where it comes from, or its decision, to DIR/NAME.removed.jsonl; returns the counts."""
    for name in section.against:
        require_regular(Path(name))
    paths = expand(inputs)
    names = output_names(paths)
    refuse_overwriting(paths, [path for name in names for path in _outputs(output, name)])
    require_records(paths)
    jobs = [
        DecontaminateJob(path, name, output, tuple(text_fields), section, include)
        for path, name in zip(paths, names, strict=True)
    ]
    files = run_all(decontaminate_file, jobs, fanout, lambda job, summary: say(_line(str(job.path), summary)))
    evaluations = sum((Counter(summary["evaluations"]) for summary in files), Counter[str]())
    total = {key: sum(summary[key] for summary in files) for key in ("in", "removed")}
    left_out = decisions.added(files)
    return {**total, "left_out": left_out, "evaluations": dict(evaluations.most_common()), "files": files}


def decontaminate_file(job: DecontaminateJob) -> Summary:
    """Decontaminate one file, unless an earlier run did with the same content and evaluation files."""
    with alone(job.output, job.name):
        return _decontaminate(job)


def _decontaminate(job: DecontaminateJob) -> Summary:
    clean, removed = _outputs(job.output, job.name)
    summary_path = job.output / f"{job.name}.decontamination.json"
    stamped = stamp(
        content_of(job.path), evaluations=evaluation_set(job.section), text_fields=list(job.text_fields),
        include=list(job.include), version=VERSIONS["decontaminate"],
    )  # fmt: skip
    if (known := finished(summary_path, stamped, [clean, removed], KINDS)) is not None:
        return {**known, "skipped": True}
    summary_path.unlink(missing_ok=True)
    index = read_evaluations(job.section)
    evaluations: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    count = 0
    with open_records(clean) as keep, open_records(removed) as remove:
        documents = as_documents(job.path, job.text_fields)
        for count, (record, document) in enumerate(zip(kept_records(job.path), documents, strict=True), 1):
            if not decisions.is_taken(document, job.include, left_out):
                remove({"row": count - 1, "decision": document["decision"], "record": record})
                continue
            found = contamination(trained_text(document["data"], document["text_fields"]), index)
            if found is None:
                keep(record)
                continue
            evaluations[found["evaluation"]] += 1
            remove({"row": count - 1, **found, "record": record})
    summary = {
        **{"in": count, "removed": evaluations.total(), "left_out": dict(left_out)},
        "evaluations": dict(evaluations),
        **stamped,
    }
    write_json(summary_path, summary)
    return summary


def _outputs(output: Path, name: str) -> tuple[Path, Path]:
    """What is left of a file, and what was removed."""
    return output / f"{name}.jsonl.zst", output / f"{name}.removed.jsonl"


def total_line(summary: Summary, output: Path) -> str:
    return _line(str(output), summary)


def _line(name: str, summary: Summary) -> str:
    why = ", ".join(f"{file} {count:,}" for file, count in summary["evaluations"].items())
    counts = f"{name}: {summary['in']:,} records in, {summary['removed']:,} removed"
    return counts + (f" ({why})" if why else "") + decisions.words(summary["left_out"])
