"""Nemotron mathematics: problems whose solutions were scored for errors, and a list of rows to leave out.

A listed row is `source<TAB>row`, `source:row`, a pair, or a mapping with source_file (or source_rel) and
file_row_index (or row_index).
"""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from zgcm.config.profiles import Profile
from zgcm.corpus.pipeline import Settings
from zgcm.corpus.sample import Sample
from zgcm.corpus.steps.common import metadata, number

SCORES = ("hard_error_score", "math_hard_error_score", "error_risk_score")
Key = tuple[str, int]


def clean_nemotron_math_record(sample: Sample, settings: Settings) -> None:
    key, score = _lineage(metadata(sample)), _score(sample)
    if key is None:
        sample.flags.add("nemotron_math_missing_lineage_key")
    else:
        sample.data["nemotron_math_drop_key"] = f"{key[0]}:{key[1]}"
    risky = score is not None and score >= settings["nemotron_math_hard_error_threshold"]
    if score is not None:
        sample.metrics["nemotron_math_hard_error_score"] = score
        sample.buckets["hard_error_risk"] = "high" if risky else "accepted"
    if risky or (key is not None and key in _listed(settings["nemotron_math_drop_keys"])):
        sample.drop("nemotron_math_strict_hard_error")
    elif key is None and score is None:
        sample.review("nemotron_math_missing_hard_error_signal")


def _lineage(details: Mapping[str, Any]) -> Key | None:
    """File and row that a record comes from."""
    path = details.get("source_path")
    source = details.get("source_rel") or details.get("source_file") or (
        PurePosixPath(path).name if isinstance(path, str) else None
    )  # fmt: skip
    row = details.get("row_index")
    return _key(source, details.get("file_row_index") if row is None else row)


def _score(sample: Sample) -> float | None:
    known = (number(place.get(name)) for place in (sample.data, metadata(sample)) for name in SCORES)
    return next((score for score in known if score is not None), None)


_LISTS: dict[int, tuple[Any, frozenset[Key]]] = {}


def _listed(items: Any) -> frozenset[Key]:
    """The listed rows as a set, made once for a list: it may hold a million and is asked as often."""
    if id(items) not in _LISTS:
        keys = (_listed_key(item) for item in items)
        _LISTS.clear()
        _LISTS[id(items)] = items, frozenset(key for key in keys if key is not None)
    return _LISTS[id(items)][1]


def _listed_key(item: Any) -> Key | None:
    """A listed row; None for anything that is none."""
    if isinstance(item, str):
        source, _, number_text = item.partition("\t") if "\t" in item else item.rpartition(":")
        return _key(source, number_text)
    if isinstance(item, Mapping):
        row = item.get("file_row_index")
        return _key(
            item.get("source_file") or item.get("source_rel"), item.get("row_index") if row is None else row
        )
    return _key(*item) if isinstance(item, list | tuple) and len(item) == 2 else None


def _key(source: Any, row: Any) -> Key | None:
    if not source or isinstance(row, bool) or not isinstance(row, int | str):
        return None
    try:
        return str(source), int(row)
    except ValueError:
        return None


PROFILE = Profile(
    [clean_nemotron_math_record],
    stages=["midtrain"],
    categories=["math"],
    settings={"nemotron_math_drop_keys": [], "nemotron_math_hard_error_threshold": 4.0},
)
