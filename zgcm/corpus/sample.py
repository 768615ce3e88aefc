"""One record on its way through the cleaning steps."""

from dataclasses import dataclass, field
from typing import Any

from zgcm.records import Record, record_sha256, training_text

KEEP, REVIEW, DROP = "keep", "review", "drop"
_RANK = {KEEP: 0, REVIEW: 1, DROP: 2}


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
