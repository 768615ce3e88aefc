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
SAID = ("content", "reasoning_content", "text")
"""Keys of messages and of their parts under which it may be: what a tool returns."""


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
    redacted = redact_value(value, kinds, in_json=True)
    return text if redacted == value else json_text(redacted)


def redact_value(value: Any, kinds: Collection[str], *, in_json: bool = False) -> Any:
    """A copy of nested data in which every string is redacted; `in_json`, as in tool arguments, integers too,
    as strings, and keys."""
    if isinstance(value, str):
        return redact_text(value, kinds)
    if isinstance(value, list):
        return [redact_value(item, kinds, in_json=in_json) for item in value]
    if isinstance(value, dict):
        fields = _arguments(value, kinds) if in_json else value
        return {key: _field(key, item, kinds, in_json) for key, item in fields.items()}
    if in_json and _is_number(value):
        return _changed(value, redact_text(str(value), kinds))
    return value


def scanned_strings(value: Any, *, in_json: bool = False) -> list[str]:
    """Every string of nested data: what a scan looks at. Tool arguments are parsed; of them integers count
    too, and names, with what stands under them: of {"password": "..."} the name tells what the value is."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in scanned_strings(item, in_json=in_json)]
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in _field_strings(key, item, in_json)]
    return [str(value)] if in_json and _is_number(value) else []


def _arguments(fields: dict[str, Any], kinds: Collection[str]) -> dict[str, Any]:
    """An object of tool arguments with its names redacted, each still one of its own, and what is found under
    a name only because of it."""
    redacted: dict[str, Any] = {}
    for key, item in fields.items():
        if isinstance(item, str) or _is_number(item):
            item = redact_value(item, kinds, in_json=True)
            found = redact_text(_named(key, item), kinds)
            if found.startswith(start := _named(key, "")):
                item = _changed(item, found.removeprefix(start))
        name = plain = redact_text(key, kinds)
        while name in redacted:
            name = f"{plain} {len(redacted)}"
        redacted[name] = item
    return redacted


def _named(key: str, item: Any) -> str:
    return f"{key}: {item}"


def _changed(value: Any, text: str) -> Any:
    return value if text == str(value) else text


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _field(key: str, item: Any, kinds: Collection[str], in_json: bool) -> Any:
    if key == ARGUMENTS:
        return redact_json(item, kinds) if isinstance(item, str) else redact_value(item, kinds, in_json=True)
    redacted = redact_value(item, kinds, in_json=in_json)
    return redact_json(redacted, kinds) if key in SAID and _is_escaped(redacted) else redacted


def _field_strings(key: str, item: Any, in_json: bool) -> list[str]:
    if key == ARGUMENTS or (key in SAID and _is_escaped(item)):
        parsed = _parse(item) if isinstance(item, str) else item
        return scanned_strings(item if parsed is None else parsed, in_json=True)
    if not in_json:
        return scanned_strings(item)
    if isinstance(item, str) or _is_number(item):
        return [_named(key, item)]
    return [key, *scanned_strings(item, in_json=True)]


def _is_escaped(value: Any) -> bool:
    """Whether it may be JSON whose escapes (`\\n138...`, `\\u8bdd138...`) hide where a number begins."""
    return isinstance(value, str) and "\\" in value and value.lstrip()[:1] in ("{", "[")


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
