"""One record on its way through the cleaning steps."""

import json
import math
from dataclasses import dataclass, field
from typing import Any

import orjson

from zgcm.records import Record, record_sha256, training_text

KEEP, REVIEW, DROP = "keep", "review", "drop"
_RANK = {KEEP: 0, REVIEW: 1, DROP: 2}


CLEANED_KEYS = frozenset(
    {
        "dataset", "source_id", "stage", "category", "decision", "reasons", "flags", "buckets", "metrics",
        "data", "text_fields", "record_sha256",
    }
)  # fmt: skip
"""Of a record that a cleaner wrote: ours, or the published one (which has no text_fields)."""


def is_cleaned(record: Record) -> bool:
    """Whether a cleaner wrote a record: ours, or the published one."""
    return CLEANED_KEYS - {"text_fields"} <= record.keys()


@dataclass(slots=True)
class Sample:
    """Steps change it in place. `text_fields` names the fields of `data` that make up the training text."""

    dataset: str
    source_id: str
    stage: str
    category: str
    data: Record
    text_fields: tuple[str, ...] = ("text",)
    decision: str = KEEP
    reasons: list[str] = field(default_factory=list)
    flags: set[str] = field(default_factory=set)
    buckets: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    normal_text: str = ""
    """The training text, where it is known to be in the published normal form: computing that again to
    compare texts took an eighth of all cleaning time."""

    def text(self) -> str:
        """The training text: the non-empty string fields, joined by line feeds."""
        return training_text(self.data, self.text_fields)

    def string(self, name: str) -> str:
        """A field of `data`, or "" when it is no string."""
        value = self.data.get(name)
        return value if isinstance(value, str) else ""

    def first(self, *names: str) -> Any:
        """The first truthy field among `names`, or None."""
        return next((value for name in names if (value := self.data.get(name))), None)

    def mark(self, decision: str, reason: str) -> None:
        """Lower the decision (keep < review < drop; never back) and remember the reason once."""
        if _RANK[decision] > _RANK[self.decision]:
            self.decision = decision
        if reason and reason not in self.reasons:
            self.reasons.append(reason)

    def drop(self, reason: str) -> None:
        self.mark(DROP, reason)

    def review(self, reason: str, *, flag: bool = False) -> None:
        """Ask for a look. With `flag` the reason is also a flag, which audits read."""
        if flag:
            self.flags.add(reason)
        self.mark(REVIEW, reason)

    def record(self) -> Record:
        """The serialised form. The digest is taken now, so it covers what the steps did to `data`."""
        return {
            "dataset": self.dataset,
            "source_id": self.source_id,
            "stage": self.stage,
            "category": self.category,
            "decision": self.decision,
            "reasons": self.reasons,
            "flags": sorted(self.flags),
            "buckets": self.buckets,
            "metrics": self.metrics,
            "data": self.data,
            "text_fields": list(self.text_fields),
            "record_sha256": record_sha256(self.data),
        }


def unwritable(sample: Sample) -> str:
    """Why a sample cannot be written so that it is read back the same; empty when it can. For samples that a
    user's step has changed: `data` of other values would be written by their `str`, sets in any order."""
    right = {
        "data": type(sample.data) is dict,
        "text_fields": _are(str, sample.text_fields, (tuple, list)),
        "decision": isinstance(sample.decision, str) and sample.decision in _RANK,
        "reasons": _are(str, sample.reasons),
        "flags": _are(str, sample.flags, set),
        "buckets": isinstance(sample.buckets, dict)
        and _are(str, [*sample.buckets, *sample.buckets.values()]),
        "metrics": isinstance(sample.metrics, dict)
        and _are(str, [*sample.metrics])
        and all(isinstance(value, int | float) and math.isfinite(value) for value in sample.metrics.values()),
        **{
            name: isinstance(getattr(sample, name), str)
            for name in ("source_id", "dataset", "stage", "category")
        },
    }
    if wrong := [name for name, is_right in right.items() if not is_right]:
        return f"the step leaves {wrong[0]} = {str(getattr(sample, wrong[0]))[:80]}"
    try:
        written = orjson.dumps(
            sample.data, option=orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
        )
        if b"null" in written:  # NaN becomes one
            json.dumps(sample.data, allow_nan=False)
    except (TypeError, ValueError) as error:
        return f"the step leaves data that JSON cannot hold: {error}"
    return ""


def _are(kind: type, values: Any, container: Any = list) -> bool:
    return isinstance(values, container) and all(isinstance(value, kind) for value in values)
