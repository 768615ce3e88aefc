"""Which cleaned records the verbs on plain files take: by default those of the decision `keep`, with
`--include review` those for review too (a possible secret among them). Raw records have no decision, and are
taken.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from zgcm.errors import ZgcmError
from zgcm.records import Record

if TYPE_CHECKING:
    from zgcm.config.corpus import Decision

KEEP = ("keep",)
EVERY: tuple["Decision", ...] = ("keep", "review", "drop")
TAKEN = ("keep", "review")
"""What may be asked for: a dropped record is never trained on."""


def included(asked: list[str] | None) -> tuple[str, ...]:
    """The decisions to take, for the values of --include. Raises ZgcmError for another one."""
    if wrong := [decision for decision in asked or [] if decision not in TAKEN]:
        raise ZgcmError("No such decision to include", found=wrong[0], expected=", ".join(TAKEN))
    return tuple(decision for decision in TAKEN if decision in {"keep", *(asked or [])})


def is_taken(record: Record, include: tuple[str, ...], left_out: Counter[str]) -> bool:
    """Whether a record in the form of a cleaned one takes part; others are counted by their decision."""
    decision = record.get("decision", "keep")
    if decision in include:
        return True
    left_out[str(decision)] += 1
    return False


def taken(
    documents: Iterable[Record | str], include: tuple[str, ...], left_out: Counter[str]
) -> Iterator[Record | str]:
    """Records and plain texts, without the records that `is_taken` leaves out."""
    return (item for item in documents if isinstance(item, str) or is_taken(item, include, left_out))


def of_reasons(reasons: dict[str, int]) -> dict[str, int]:
    """Counts by decision, from the reasons that deduplication gives."""
    prefix = "decision:"
    return {key.removeprefix(prefix): count for key, count in reasons.items() if key.startswith(prefix)}


def added(summaries: Iterable[dict[str, Any]]) -> dict[str, int]:
    """`left_out` of several files."""
    return dict(sum((Counter(summary["left_out"]) for summary in summaries), Counter[str]()))


def require_some(documents: int, left_out: dict[str, int], where: str) -> None:
    """Raises ZgcmError where all records that were read are left out for their decision."""
    if documents or not left_out:
        return
    remedies = (
        ["--include review takes those for review, after a look at them"] if "review" in left_out else []
    )
    raise ZgcmError(
        "Every record is left out for its decision",
        where=where,
        found=", ".join(f"{count:,} of decision {decision}" for decision, count in sorted(left_out.items())),
        expected="records of decision keep",
        hint="; or ".join([*remedies, "bring others: zgcm clean says why it drops a record"]),
    )


def words(left_out: dict[str, int]) -> str:
    """The end of a verb's line: "; left out: 3 of decision review (--include review takes them)"."""
    if not left_out:
        return ""
    counts = ", ".join(f"{count:,} of decision {decision}" for decision, count in sorted(left_out.items()))
    return f"; left out: {counts}" + (" (--include review takes these)" if "review" in left_out else "")
