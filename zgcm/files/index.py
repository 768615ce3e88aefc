"""`zgcm index IN... --output PREFIX`: files of records become one Megatron index, in the order given.

Several files, and the parts of a huge one, are tokenized one by one, so that an interrupted run goes on with
the one it was at, and then joined: a copy of bytes. Document i is record i of those that take part
(zgcm.files.decisions).
"""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from zgcm.corpus.sample import is_cleaned
from zgcm.errors import ZgcmError
from zgcm.files import decisions
from zgcm.files.fanout import Fanout, run_all
from zgcm.files.plain import (
    Summary,
    alone,
    content_of,
    expand,
    finished,
    output_names,
    require_records,
    stamp,
    watch,
)
from zgcm.io import write_json
from zgcm.numbers import counted
from zgcm.records import Record, parse_lines, read_numbered, record_format
from zgcm.records.lines import WHOLE, Line, Part, line_number, read_line_blocks
from zgcm.tokens.encode import load_encoder
from zgcm.tokens.index import IndexFiles, write_index
from zgcm.tokens.indexed import data_path, index_path, open_indexed, without_ending, write_indexed
from zgcm.tokens.tokenizer import any_facts
from zgcm.versions import VERSIONS

PART_BYTES = 1 << 32
"""Plain files are cut into parts of about this size: some 20 s of work each."""
BLOCK_TOKENS = 1 << 22
"""Copied at a time when indexes are joined."""
_NOT_PLAIN = {"messages", "data"}
"""Fields of conversations and of cleaned records."""


@dataclass(frozen=True)
class IndexJob:
    """A file or a part of one, its tokenizer, the fields of its text, and where its index goes."""

    path: Path
    tokenizer: Path
    text_fields: tuple[str, ...]
    output: IndexFiles
    include: tuple[str, ...] = decisions.KEEP
    """Decisions of cleaned records that take part."""
    measured: bool = False
    """Whether lexical complexity is, for a curriculum."""
    part: Part = WHOLE
    content: Summary | None = None
    """Of a file in several parts, which would each read it whole to name its content."""


def index_files(
    inputs: list[str],
    tokenizer: Path,
    prefix: Path,
    text_fields: list[str],
    include: tuple[str, ...],
    fanout: Fanout,
    say: Callable[[str], None],
) -> Summary:
    """Write `prefix`.bin, .idx and .index.json from all files; returns what the last holds.

    Raises ZgcmError when a file fails; those that are done stay in the hidden directory .NAME.parts beside it
    until all are.
    """
    paths = expand(inputs)
    if prefix.is_dir():
        raise ZgcmError("An index has a name, this is a directory", where=str(prefix),
                        hint=f"name the index: {prefix / 'NAME'}")  # fmt: skip
    require_records(paths)
    prefix = without_ending(prefix)
    with alone(prefix.parent, prefix.name):
        return _index_all(paths, tokenizer, prefix, tuple(text_fields), include, fanout, say)


def _index_all(
    paths: list[Path],
    tokenizer: Path,
    prefix: Path,
    text_fields: tuple[str, ...],
    include: tuple[str, ...],
    fanout: Fanout,
    say: Callable[[str], None],
) -> Summary:
    whole = IndexFiles(prefix, None, beside(prefix, ".index.json"))
    cut = [parts_of(path) for path in paths]
    if [len(parts) for parts in cut] == [1]:
        only = IndexJob(paths[0], tokenizer, text_fields, whole, include)
        return run_all(index_file, [only], fanout, lambda job, report: say(index_line(job, report)))[0]
    folder = prefix.with_name(f".{prefix.name}.parts")
    jobs = []
    for path, name, parts in zip(paths, output_names(paths), cut, strict=True):
        content = content_of(path) if len(parts) > 1 else None
        for part in parts:
            place = folder / (name if len(parts) == 1 else f"{name}-{part.index:05d}-of-{part.of:05d}")
            output = replace(index_in(place), facts=None)
            jobs.append(IndexJob(path, tokenizer, text_fields, output, include, part=part, content=content))
    facts = any_facts(tokenizer)
    stamped = {"parts": [_stamp(job, facts) for job in jobs]}
    if (known := finished(whole.report, stamped, [data_path(prefix), index_path(prefix)])) is not None:
        return {**known, "skipped": True}
    reports = run_all(index_file, jobs, fanout, lambda job, report: say(index_line(job, report)))
    joined = join([job.output.prefix for job in jobs], prefix)
    files = {path: {"file": str(path), "documents": 0, "tokens": 0} for path in paths}
    for job, part_report in zip(jobs, reports, strict=True):
        for key in ("documents", "tokens"):
            files[job.path][key] += part_report[key]
    common = {key: reports[0][key] for key in ("tokenizer", "vocab_size")}
    report = {
        **joined,
        **common,
        "files": list(files.values()),
        "left_out": decisions.added(reports),
        **stamped,
    }
    write_json(whole.report, report)
    shutil.rmtree(folder)
    return report


def index_file(job: IndexJob) -> Summary:
    """Index one file, unless an earlier run did with the same content, tokenizer and fields."""
    facts = any_facts(job.tokenizer)
    stamped = _stamp(job, facts)
    outputs = [data_path(job.output.prefix), index_path(job.output.prefix)]
    if (known := finished(job.output.report, stamped, outputs)) is not None:
        return {**known, "skipped": True}
    encoder = load_encoder(job.tokenizer, facts)
    left_out: Counter[str] = Counter()  # counted while the records are read, so before the report is written
    documents = texts_or_documents(job.path, job.text_fields, job.part)
    records = decisions.taken(documents, job.include, left_out)
    return write_index(
        records,
        job.path,
        encoder,
        job.output,
        measured=job.measured,
        watch=_watch(job.path),
        left_out=left_out,
        **stamped,
    )


def parts_of(path: Path) -> list[Part]:
    """By size alone, so that whoever goes on cuts alike. Compressed files cannot be entered in the middle."""
    is_cut = record_format(path) == ".jsonl"
    count = -(-path.stat().st_size // PART_BYTES) if is_cut else 1
    return [Part(index, max(count, 1)) for index in range(max(count, 1))]


def texts_or_documents(
    path: Path, text_fields: tuple[str, ...], part: Part = WHOLE
) -> Iterator[Record | str]:
    """The same as `as_documents`, but plain texts as they are where a block of lines holds nothing else."""
    if record_format(path) == ".parquet":
        yield from as_documents(path, text_fields)
        return
    before = 0
    for offset, lines in read_line_blocks(path, part):
        texts = _plain_texts(lines, text_fields[0]) if len(text_fields) == 1 else None
        if texts is not None:
            yield from texts
        else:
            for line, record in parse_lines(path, part, lines, before, offset):
                yield _as_document(partial(_line_place, path, part, line), record, text_fields)
        before += len(lines)


def _plain_texts(lines: list[bytes], name: str) -> list[str] | None:
    try:
        records = list(map(orjson.loads, lines))
        texts = [record[name] for record in records]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    is_plain = all(map(_NOT_PLAIN.isdisjoint, records)) and set(map(type, texts)) <= {str}
    return texts if is_plain else None


def as_documents(path: Path, text_fields: tuple[str, ...]) -> Iterator[Record]:
    """Records in the form of a cleaned shard; cleaned ones as they are.

    Raises ZgcmError for a record that has neither a text field nor messages.
    """
    for number, record in read_numbered(path):
        yield _as_document(partial("{}:{}".format, path, number), record, text_fields)


def _line_place(path: Path, part: Part, line: Line) -> str:
    return f"{path}:{line_number(path, part, line)}"


def _as_document(place: Callable[[], str], record: Record, text_fields: tuple[str, ...]) -> Record:
    """`place` says where the record is; of a part of a file that takes a count of the lines before it."""
    if is_cleaned(record):
        return _cleaned(place, record, text_fields)
    if isinstance(record.get("messages"), list) or any(
        isinstance(record.get(name), str) for name in text_fields
    ):
        return {"data": record, "text_fields": text_fields}
    raise ZgcmError(
        "A record has no text", where=place(), found=f"the fields {', '.join(record)}",
        expected=f"a string in {', '.join(text_fields)}, or messages",
        hint="name its field: --text-field FIELD",
    )  # fmt: skip


def _cleaned(place: Callable[[], str], record: Record, text_fields: tuple[str, ...]) -> Record:
    """A cleaned record; the published cleaner's has no text_fields."""
    fields, metrics = record.get("text_fields", list(text_fields)), record["metrics"]
    right = {
        "data": isinstance(record["data"], dict),
        "text_fields": isinstance(fields, list) and all(isinstance(name, str) for name in fields),
        "decision": record["decision"] in decisions.EVERY,
        "metrics": isinstance(metrics, dict)
        and all(isinstance(value, int | float) for value in metrics.values()),
    }
    if wrong := [name for name, is_right in right.items() if not is_right]:
        raise ZgcmError(
            "A record has the keys of a cleaned one, and values that no cleaner writes",
            where=place(), found=f"{wrong[0]}: {str(record.get(wrong[0]))[:80]}",
            hint="restore the file, or clean it again",
        )  # fmt: skip
    return {**record, "text_fields": fields}


def join(prefixes: list[Path], output: Path) -> Summary:
    """One index of the documents of several, in order."""
    indexes = [open_indexed(prefix) for prefix in prefixes]
    with write_indexed(output, indexes[0].tokens.dtype) as (writer, written):
        for indexed in indexes:
            ends = np.cumsum(indexed.lengths, dtype=np.int64)
            first = 0
            while first < len(indexed):
                begin = int(ends[first - 1]) if first else 0
                last = max(int(np.searchsorted(ends, begin + BLOCK_TOKENS, "right")), first + 1)
                writer.append(indexed.tokens[begin : ends[last - 1]], indexed.lengths[first:last])
                first = last
    return asdict(written)


def beside(prefix: Path, ending: str) -> Path:
    return prefix.with_name(prefix.name + ending)


def index_in(prefix: Path) -> IndexFiles:
    """An index with the facts that packing reads."""
    return IndexFiles(prefix, beside(prefix, ".documents.parquet"), beside(prefix, ".index.json"))


def index_line(job: IndexJob, report: Summary) -> str:
    known = "done before; " if report.get("skipped") else ""
    counts = f"{counted(report['documents'], 'document')}, {report['tokens']:,} tokens ({report['dtype']})"
    part = "" if job.part.of == 1 else f" ({job.part.index + 1} of {job.part.of})"
    return f"{job.path}{part}: {known}{counts}{decisions.words(report['left_out'])}"


def _stamp(job: IndexJob, facts: dict[str, Any]) -> Summary:
    known = {"tokenizer": facts["digest"], "vocab_size": facts["vocab_size"], "version": VERSIONS["index"]}
    return stamp(
        job.content or content_of(job.path),
        **known,
        text_fields=list(job.text_fields),
        include=list(job.include),
    )


def _watch(path: Path) -> Callable[[int, int], None]:
    tell = watch(path)
    return lambda documents, tokens: tell(documents, f", {tokens:,} tokens")
