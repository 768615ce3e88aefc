"""Typed placeholders instead of findings, in every string of a record, and JSON stays JSON."""

import json
from collections.abc import Collection
from typing import Any

from zgcm.corpus.messages import json_text
from zgcm.corpus.scan.matcher import scan

PLACEHOLDERS = {
    "secret": "<SECRET>", "email": "<EMAIL>", "phone": "<PHONE>", "ip": "<IP>", "id_card": "<ID_CARD>",
    "bank_card": "<BANK_CARD>",
}  # fmt: skip
"""Kind of finding -> what stands for it."""
ARGUMENTS = "arguments"
"""The key of tool calls under which a string is JSON."""


def redact_text(text: str, kinds: Collection[str]) -> str:
    """`text` with its findings of these kinds replaced. Text that is JSON stays JSON: where a number would
    become a bare placeholder, its value is redacted inside the parsed document."""
    pieces, position = [], 0
    for finding in scan(text):
        if finding.kind in kinds:
            pieces += [text[position : finding.start], PLACEHOLDERS[finding.kind]]
            position = finding.end
    if not pieces:
        return text
    redacted = "".join([*pieces, text[position:]])
    if text.lstrip()[:1] in ("{", "[") and _parse(text) is not None and _parse(redacted) is None:
        return redact_json(text, kinds)
    return redacted


def redact_json(text: str, kinds: Collection[str]) -> str:
    """A JSON document redacted value by value, numbers too, written anew only if something was found. Other
    text is redacted as text."""
    value = _parse(text)
    if value is None:
        return redact_text(text, kinds)
    redacted = redact_value(value, kinds, numbers=True)
    return text if redacted == value else json_text(redacted)


def redact_value(value: Any, kinds: Collection[str], *, numbers: bool = False) -> Any:
    """A copy of nested data in which every string is redacted; with `numbers` integers too, as strings."""
    if isinstance(value, str):
        return redact_text(value, kinds)
    if isinstance(value, list):
        return [redact_value(item, kinds, numbers=numbers) for item in value]
    if isinstance(value, dict):
        return {key: _field(key, item, kinds, numbers) for key, item in value.items()}
    if numbers and isinstance(value, int) and not isinstance(value, bool):
        text = str(value)
        redacted = redact_text(text, kinds)
        return value if redacted == text else redacted
    return value


def scanned_strings(value: Any, *, in_json: bool = False) -> list[str]:
    """Every string of nested data, tool arguments parsed, their integers as strings: what a scan looks at."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in scanned_strings(item, in_json=in_json)]
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in _field_strings(key, item, in_json)]
    if in_json and isinstance(value, int) and not isinstance(value, bool):
        return [str(value)]
    return []


def _field(key: str, item: Any, kinds: Collection[str], numbers: bool) -> Any:
    if key != ARGUMENTS:
        return redact_value(item, kinds, numbers=numbers)
    return redact_json(item, kinds) if isinstance(item, str) else redact_value(item, kinds, numbers=True)


def _field_strings(key: str, item: Any, in_json: bool) -> list[str]:
    if key != ARGUMENTS:
        return scanned_strings(item, in_json=in_json)
    parsed = _parse(item) if isinstance(item, str) else item
    return scanned_strings(item if parsed is None else parsed, in_json=True)


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
