"""Look at a raw dataset before writing its source: fields, lengths, languages, duplicates, noise.

    found = survey(Path("notes.jsonl.zst"), limit=10_000)

Streams. Memory holds the fields and at most 100,000 digests of each, whatever the number of records.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import xxhash

from zgcm.corpus.language import language_of
from zgcm.corpus.messages import messages_of, messages_text
from zgcm.corpus.noise import noise_in
from zgcm.corpus.text import comparison_form
from zgcm.errors import ZgcmError
from zgcm.records import Record, read_checked
from zgcm.records.badlines import BadLine
from zgcm.records.lines import WHOLE, Part

EXAMPLE_CHARS = 60
MOST_VALUES = 20
"""Different short values of a field that are counted; a field with more has no list of values."""
TOLD_EVERY = 50_000
MOST_FIELDS = 200
MOST_DIGESTS = 100_000
TEXT_CHARS = 200
"""Mean length from which a text field counts as training text by itself."""
TEXT_NAMES = ("text", "content", "body", "document", "raw_text", "ocr_text", "prompt", "response", "question",
              "answer", "problem", "solution", "instruction", "output", "reasoning",
              "completion")  # fmt: skip


@dataclass
class Lengths:
    """A distribution in bounded memory: lengths are kept to three digits, so quantiles are right to 1 %."""

    count: int = 0
    total: int = 0
    histogram: Counter[int] = field(default_factory=Counter)

    def add(self, length: int) -> None:
        self.count += 1
        self.total += length
        step = 10 ** max(0, len(str(length)) - 3)
        self.histogram[length // step * step] += 1

    def quantile(self, share: float) -> int:
        seen = 0
        for length in sorted(self.histogram):
            seen += self.histogram[length]
            if seen >= share * self.count:
                return length
        return 0

    def summary(self) -> dict[str, float]:
        mean = round(self.total / self.count, 1) if self.count else 0.0
        quantiles = {
            name: self.quantile(share) for name, share in (("p50", 0.5), ("p95", 0.95), ("max", 1.0))
        }
        return {"mean": mean, **quantiles}


@dataclass
class Repeats:
    """Share of repeated values in bounded memory: of too many digests, only those divisible by 2, 4, … stay.
    Equal values have equal digests, so the share stays unbiased."""

    seen: dict[int, int] = field(default_factory=dict)
    """Digest -> how often."""
    counted: int = 0
    part: int = 1

    def add(self, value: str) -> None:
        digest = xxhash.xxh3_64_intdigest(value.encode("utf-8", "surrogatepass"))
        if digest % self.part:
            return
        self.counted += 1
        self.seen[digest] = self.seen.get(digest, 0) + 1
        if len(self.seen) > MOST_DIGESTS:
            self.part *= 2
            self.seen = {digest: count for digest, count in self.seen.items() if digest % self.part == 0}
            self.counted = sum(self.seen.values())

    def share(self) -> float:
        return 1 - len(self.seen) / self.counted if self.counted else 0.0


@dataclass
class Field:
    """What is known of one field; `name` is `outer.inner` one level down, `outer[].inner` in lists."""

    name: str
    records: int = 0
    types: Counter[str] = field(default_factory=Counter)
    lengths: Lengths = field(default_factory=Lengths)
    values: Counter[str] | None = field(default_factory=Counter)
    repeats: Repeats = field(default_factory=Repeats)
    example: str = ""

    def add(self, value: Any) -> None:
        self.types[_type_name(value)] += 1
        if isinstance(value, str | list):
            self.lengths.add(len(value))
        if isinstance(value, str | int | float):
            self._count(str(value))
        self.example = self.example or _example(value)

    def _count(self, text: str) -> None:
        self.repeats.add(text)
        if self.values is None or len(text) > EXAMPLE_CHARS:
            self.values = None
            return
        self.values[text] += 1
        if len(self.values) > MOST_VALUES:
            self.values = None


@dataclass
class Survey:
    """What `survey` found; `summary` is its JSON."""

    path: Path
    records: int = 0
    bad_lines: int = 0
    first_bad_line: str = ""
    complete: bool = True
    fields: dict[str, Field] = field(default_factory=dict)
    fields_left_out: int = 0
    """Values of fields beyond MOST_FIELDS: objects with a key for each user or page have any number."""
    characters: Lengths = field(default_factory=Lengths)
    duplicates: Repeats = field(default_factory=Repeats)
    languages: Counter[str] = field(default_factory=Counter)
    noise: Counter[str] = field(default_factory=Counter)

    def share(self, name: str) -> float:
        return self.fields[name].records / self.records if name in self.fields and self.records else 0.0

    def summary(self) -> dict[str, Any]:
        return {
            "path": str(self.path),
            "records": self.records,
            "complete": self.complete,
            "bad_lines": self.bad_lines,
            "first_bad_line": self.first_bad_line,
            "fields_left_out": self.fields_left_out,
            "fields": [self._field(item) for item in self.fields.values()],
            "characters": self.characters.summary(),
            "duplicate_share": round(self.duplicates.share(), 4),
            "languages": self._shares(self.languages),
            "noise": self._shares(self.noise),
        }

    def _field(self, item: Field) -> dict[str, Any]:
        found: dict[str, Any] = {
            "name": item.name,
            "present": round(item.records / self.records, 4),
            "types": dict(item.types.most_common()),
            "example": item.example,
        }
        if item.lengths.count:
            found["length"] = item.lengths.summary()
        if item.values and (len(item.values) < item.repeats.counted or len(item.values) == 1):
            found["values"] = dict(item.values.most_common())
        return found

    def _shares(self, counts: Counter[str]) -> dict[str, float]:
        return {name: round(count / self.records, 4) for name, count in counts.most_common()}


def survey(
    path: Path, limit: int = 0, part: Part = WHOLE, progress: Callable[[int], None] = lambda records: None
) -> Survey:
    """Look at the first `limit` records (0: all) of a file or a part of it.

    Lines that are no records are counted, not fatal. `progress` hears the count every TOLD_EVERY records.
    Raises ZgcmError for a file that cannot be read or holds no records.
    """
    found = Survey(path)
    for record in read_checked(path, part, partial(_note_bad_line, found)):
        if limit and found.records == limit:
            found.complete = False
            break
        found.records += 1
        if found.records % TOLD_EVERY == 0:
            progress(found.records)
        _add(found, record)
    if not found.records:
        raise ZgcmError(
            "The file holds no records", where=found.first_bad_line or str(path),
            found=f"{found.bad_lines:,} lines that are none" if found.bad_lines else "nothing",
            expected="one JSON object a line, or parquet rows",
        )  # fmt: skip
    return found


def sample_text(record: Record) -> str:
    """What of a raw record looks like training text: its conversation, else its long or well-named fields."""
    if messages := messages_of(record, "messages", "trajectory", "conversations"):
        return messages_text(
            [{"role": item.get("from"), "content": item.get("value"), **item} for item in messages]
        )
    texts = {name: value for name, value in record.items() if isinstance(value, str) and value}
    named = [value for name, value in texts.items() if name in TEXT_NAMES]
    return "\n".join(named or [value for value in texts.values() if len(value) >= TEXT_CHARS])


def _note_bad_line(found: Survey, bad: BadLine) -> None:
    found.bad_lines += 1
    found.first_bad_line = found.first_bad_line or f"{bad.place}: {bad.refused.found or bad.refused.what}"


def _add(found: Survey, record: Record) -> None:
    for name, values in _flat(record).items():
        if name not in found.fields and len(found.fields) >= MOST_FIELDS:
            found.fields_left_out += 1
            continue
        item = found.fields.setdefault(name, Field(name))
        item.records += 1
        for value in values:
            item.add(value)
    text = sample_text(record)
    found.characters.add(len(text))
    if not text:
        found.noise["no text found"] += 1
        return
    found.duplicates.add(comparison_form(text))
    found.languages[language_of(text)] += 1
    found.noise.update(noise_in(text))


def _flat(record: Record) -> dict[str, list[Any]]:
    """The fields of a record that are not null, nested ones one level down."""
    flat: dict[str, list[Any]] = {}
    for name, value in record.items():
        if value is None:
            continue
        flat[name] = [value]
        if isinstance(value, dict):
            flat |= {f"{name}.{key}": [inner] for key, inner in value.items() if inner is not None}
        for item in value if isinstance(value, list) else ():
            if isinstance(item, dict):
                for key, inner in item.items():
                    if inner is not None:
                        flat.setdefault(f"{name}[].{key}", []).append(inner)
    return flat


def _type_name(value: Any) -> str:
    names = {
        str: "text",
        bool: "true/false",
        int: "whole number",
        float: "number",
        list: "list",
        dict: "object",
    }
    return names.get(type(value), type(value).__name__)


def _example(value: Any) -> str:
    if isinstance(value, dict | list):
        return ""
    text = " ".join(str(value).split())
    return text if len(text) <= EXAMPLE_CHARS else text[: EXAMPLE_CHARS - 1] + "…"
