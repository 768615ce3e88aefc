"""What an overlay takes away: weights that are null, and stages that `only` does not list.

Works on plain data before validation, where anything may stand anywhere; what has the wrong form is left for
the validation to name.
"""

from collections.abc import Iterable
from typing import Any

NULLABLE = (("tokenizer",), ("mixes", "*", "sources"), ("stages", "*", "mix"))
"""Mappings in which null takes an entry out. Elsewhere null is a value (`save_every_epochs: null`), or
a slip (a stage without its keys). Whole stages, mixes and sources go by `only`."""


def narrow(data: dict[str, Any]) -> dict[str, Any]:
    """The recipe's data without null entries and, with `only`, without what the listed stages do not need."""
    for path in NULLABLE:
        data = _without_nulls(data, path)
    only = data.get("only")
    if not only or not isinstance(only, list) or not all(isinstance(name, str) for name in only):
        return data
    stages = _entries(data, "stages")
    if not set(only) <= set(stages):
        return data  # the validation names the unknown one, and those that there are
    starts = {str(_get(stages[name], "init")) for name in only}
    adopted = [name for name in stages if name in starts and _get(stages[name], "kind") == "adopted"]
    kept = {name: stages[name] for name in dict.fromkeys([*adopted, *only])}
    mixes = _mixes(_entries(data, "mixes"), kept.values())
    wanted = {source for mix in mixes.values() for source in _keys(mix, "sources")}
    tokenizer = data.get("tokenizer")
    if _get(tokenizer, "kind") == "train":
        wanted |= set(_keys(tokenizer, "sources"))
    sources = {name: source for name, source in _entries(data, "sources").items() if name in wanted}
    return {**data, "stages": kept, "mixes": mixes, "sources": sources}


def _mixes(mixes: dict[str, Any], stages: Iterable[Any]) -> dict[str, Any]:
    """Mixes that the stages draw from, and those that these exclude."""
    found: set[str] = set()
    left = [name for stage in stages for name in _keys(stage, "mix")]
    while left:
        name = left.pop()
        if name in mixes and name not in found:
            found.add(name)
            left += _keys(mixes[name], "exclude")
    return {name: mix for name, mix in mixes.items() if name in found}


def _without_nulls(value: Any, path: tuple[str, ...]) -> Any:
    if not isinstance(value, dict):
        return value
    if not path:
        return {key: item for key, item in value.items() if item is not None}
    first, rest = path[0], path[1:]
    return {key: _without_nulls(item, rest) if first in ("*", key) else item for key, item in value.items()}


def _entries(data: dict[str, Any], key: str) -> dict[str, Any]:
    found = data.get(key)
    return found if isinstance(found, dict) else {}


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _keys(value: Any, key: str) -> list[str]:
    """Names below a key: of a mapping its keys, of a list its items."""
    found = _get(value, key)
    return [name for name in found if isinstance(name, str)] if isinstance(found, dict | list) else []
