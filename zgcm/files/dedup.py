"""`zgcm dedup FILE... --output DIR`: the files without their repetitions, each record as it was.

The files take part as the sources of one mix, in the order given: of equal texts the one in the first file
survives, then the one with the higher quality, the longer text, the smaller id.
"""

import shutil
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from zgcm.config.corpus import Mix, NearDuplicates
from zgcm.corpus.dedup import deduplicate
from zgcm.corpus.fingerprint import write_fingerprints
from zgcm.corpus.messages import trained_text
from zgcm.corpus.minhash import write_minhash
from zgcm.errors import ZgcmError
from zgcm.files import decisions
from zgcm.files.clean import file_source
from zgcm.files.fanout import Fanout, run_all
from zgcm.files.index import as_documents
from zgcm.files.plain import (
    Summary,
    alone,
    content_of,
    expand,
    finished,
    in_own_words,
    kept_records,
    output_names,
    refuse_overwriting,
    require_records,
    small_recipe,
    stamp,
)
from zgcm.io import DAMAGED, read_json, write_json
from zgcm.layout import Layout
from zgcm.records import Record, training_text, write_records
from zgcm.versions import VERSIONS

MIX, SHARD = "files", "00000"
KEYS = {"stage": "pretrain", "category": "general_text"}


@dataclass(frozen=True)
class ComparedLayout(Layout):
    """DIR/duplicates.parquet; what is compared lies in DIR/.compared until all is done."""

    @property
    def compared(self) -> Path:
        return self.root / ".compared"

    def cleaned(self, source: str, shard: str) -> Path:
        return self.compared / f"{source}.jsonl.zst"

    def fingerprints(self, source: str, shard: str) -> Path:
        return self.compared / f"{source}.fingerprints"

    def minhash(self, source: str, shard: str, scheme: str) -> Path:
        return self.compared / f"{source}.{scheme}.minhash"

    def mix(self, mix: str) -> Path:
        return self.root


@dataclass(frozen=True)
class CompareJob:
    """A file, what it is called, and how its records are compared."""

    path: Path
    name: str
    output: Path
    text_fields: tuple[str, ...]
    near: NearDuplicates | None


def dedup_files(
    inputs: list[str],
    output: Path,
    near: NearDuplicates | None,
    text_fields: list[str],
    include: tuple[str, ...],
    fanout: Fanout,
    say: Callable[[str], None],
) -> Summary:
    """Write each file's surviving records to DIR/NAME.jsonl.zst, what was removed and why to
    DIR/duplicates.parquet, and DIR/dedup.json, which is returned. Raises ZgcmError when a file fails."""
    paths = expand(inputs)
    names = output_names(paths)
    outputs = {name: output / f"{name}.jsonl.zst" for name in names}
    whole, layout = output / "dedup.json", ComparedLayout(output)
    refuse_overwriting(paths, [*outputs.values(), layout.duplicates(MIX)])
    require_records(paths)
    with alone(output):
        _refuse_other_files(whole, names)
        jobs = [
            CompareJob(path, name, output, tuple(text_fields), near)
            for path, name in zip(paths, names, strict=True)
        ]
        run_all(
            _compare_kept, jobs, fanout, lambda job, counts: say(f"{job.path}: {counts['records']:,} records")
        )
        keys = {**KEYS, "include": list(include)}
        sources = {name: file_source(path, keys) for path, name in zip(paths, names, strict=True)}
        mix = Mix(sources=dict.fromkeys(names, 1.0), near_duplicates=near, threads=fanout.jobs)
        whole.unlink(missing_ok=True)  # it describes all files: none must be replaced beneath it
        with in_own_words(f"mixes.{MIX}", str(output), str):
            reasons = deduplicate(small_recipe(sources, {MIX: mix}), layout, MIX)
        gone, left_out = Counter[str](), dict[str, Counter[str]]()
        for source, _, reason in _removed(layout.duplicates(MIX)):
            gone[source] += 1
            left_out.setdefault(source, Counter()).update(decisions.of_reasons({reason: 1}))
        groups = groupby(_removed(layout.duplicates(MIX)), itemgetter(0))
        files: list[Summary] = []
        for path, name in zip(paths, names, strict=True):
            # The groups come in the order of the files; a file without duplicates has none.
            rows = (row for _, row, _ in next(groups)[1]) if gone[name] else iter(())
            left = write_records(outputs[name], _without(path, rows))
            undecided = left_out.get(name, Counter())
            files.append(
                {
                    "file": str(path),
                    "in": left + gone[name],
                    "removed": gone[name] - undecided.total(),
                    "left_out": dict(undecided),
                }
            )
        total = sum(file["in"] for file in files)
        summary = {
            "in": total,
            "removed": sum(file["removed"] for file in files),
            "left": total - gone.total(),
            "reasons": reasons,
            "left_out": decisions.added(files),
            "files": files,
        }
        write_json(whole, summary)
        shutil.rmtree(layout.compared)
        return summary


def _refuse_other_files(whole: Path, names: list[str]) -> None:
    """What an earlier run left of files that take no part would look as if it had been compared."""
    known = read_json(whole)["files"] if whole.is_file() else []
    if not isinstance(known, list) or not all(isinstance(file["file"], str) for file in known):
        raise ZgcmError("A file is not what its name says", where=str(whole), found=f"files: {known}"[:80],
                        expected="files: [{file: NAME, ...}, ...]", hint=DAMAGED)  # fmt: skip
    others = sorted(set(output_names([Path(file["file"]) for file in known])) - set(names))
    if others:
        raise ZgcmError(
            "The output holds records of other files", where=str(whole), found=", ".join(others[:5]),
            expected=", ".join(names[:5]), hint="remove that directory, or choose another --output",
        )  # fmt: skip


def _compare_kept(job: CompareJob) -> Summary:
    """Compare a file whose records are written out again. One that cannot be kept as it is, is told before:
    after the comparison hours would be lost."""
    deque(kept_records(job.path), maxlen=0)
    return compare_file(job)


def compare_file(job: CompareJob) -> Summary:
    """Fingerprint a file's texts (and hash their shingles), unless an earlier run did."""
    layout = ComparedLayout(job.output)
    copy, prints = layout.cleaned(job.name, SHARD), layout.fingerprints(job.name, SHARD)
    outputs = [copy, prints]
    if job.near is not None:
        outputs.append(layout.minhash(job.name, SHARD, job.near.scheme))
    summary = copy.with_name(f"{job.name}.json")
    versions = [VERSIONS[step] for step in ("fingerprint", "minhash")]
    stamped = stamp(content_of(job.path), name=job.name, text_fields=list(job.text_fields), versions=versions)
    if (known := finished(summary, stamped, outputs)) is not None:
        return known
    summary.unlink(missing_ok=True)
    count = write_records(copy, _compared(job))
    write_fingerprints(copy, prints)
    if job.near is not None:
        write_minhash(copy, outputs[-1], job.near)
    done = {"records": count, **stamped}
    write_json(summary, done)
    return done


def _compared(job: CompareJob) -> Iterator[Record]:
    """What of each record is compared: its text, in the form of a cleaned shard."""
    for row, record in enumerate(as_documents(job.path, job.text_fields)):
        yield {
            "data": {"text": text_of(record)},
            "text_fields": ["text"],
            "source_id": str(record.get("source_id") or record["data"].get("id") or f"{job.name}:{row}"),
            "decision": record.get("decision", "keep"),
            "metrics": record.get("metrics", {}),
        }


def text_of(record: dict[str, Any]) -> str:
    """Text that is compared: of a cleaned record its text fields, which of one decision of a trace hold what
    is new; of a raw one all that it trains on."""
    text = training_text(record["data"], record["text_fields"]) if "decision" in record else ""
    return text or trained_text(record["data"], record["text_fields"])


def _removed(path: Path) -> Iterator[tuple[str, int, str]]:
    """Source, row and reason, in the order of the files and of their rows."""
    names = ["source", "row", "reason"]
    for batch in pq.ParquetFile(path).iter_batches(columns=names):
        yield from zip(*(batch[name].to_pylist() for name in names), strict=True)


def _without(path: Path, rows: Iterator[int]) -> Iterator[Record]:
    """Records but those at `rows`, which ascend. Raises ZgcmError for one that cannot be written as it is."""
    skipped = next(rows, None)
    for row, record in enumerate(kept_records(path)):
        if row != skipped:
            yield record
        else:
            skipped = next(rows, None)


def dedup_line(summary: Summary, output: Path) -> str:
    counts = summary["reasons"].items()
    shown = [(reason, count) for reason, count in counts if not decisions.of_reasons({reason: count})]
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in shown)
    why = f" ({reasons})" if reasons else ""
    told = f"{summary['in']:,} records in, {summary['left']:,} left, {summary['removed']:,} removed"
    return f"{output}: {told}{why}{decisions.words(summary['left_out'])}"
