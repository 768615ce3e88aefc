"""One line of JSON as a record, or the reason why it is none. Nothing in a record may be lost silently.

orjson alone turns integers beyond 64 bits into rounded floats and keeps the last of two equal keys; both are
refused here. The checks cost about a third of orjson's own time.
"""

import json
import re
from typing import Any

import orjson

Record = dict[str, Any]

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_DEPTH = 200
"""Nested objects and arrays; orjson reads 1,024 and writes 254."""
_KEY_END = re.compile(rb'"[ \t\r]*:')
_LARGEST = 2.0**63
_JSON_TYPES = {list: "an array", str: "a string", int: "a number", float: "a number", bool: "a boolean",
               type(None): "null"}  # fmt: skip


class Refused(Exception):
    """Why a line is no record: a short `reason` for counting, then what an error message says."""

    def __init__(
        self, reason: str, what: str, *, column: int = 1, found: str = "", expected: str = "", hint: str = ""
    ) -> None:
        super().__init__(what)
        self.reason, self.what, self.column = reason, what, column
        self.found, self.expected, self.hint = found, expected, hint


def parse_object(line: bytes) -> Record:
    """The object of a line; fast, for files of ours. Raises Refused."""
    line = line.removeprefix(BYTE_ORDER_MARK)
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise _not_json(line, error) from error
    if not isinstance(value, dict):
        raise Refused(
            "not_an_object", "A record is a JSON object", found=_JSON_TYPES[type(value)],
            hint="write one object a line, for instance {\"id\": \"1\", \"text\": \"...\"}",
        )  # fmt: skip
    return value


def parse_checked(line: bytes) -> Record:
    """Like `parse_object`, for files of others: also refuses what cannot be kept as it is."""
    line = line.removeprefix(BYTE_ORDER_MARK)
    value = parse_object(line)
    keys, depth, huge = _survey(value)
    if depth > MAX_DEPTH:
        raise _too_deep(f"{depth} levels")
    if huge:
        _refuse_large_integers(line)
    # Every key ends in `":`, and so may text inside a string; only then the slow way decides.
    if len(_KEY_END.findall(line)) != keys:
        _refuse_repeated_keys(line)
    return value


def _survey(value: Record) -> tuple[int, int, bool]:
    """Number of keys, depth, and whether a number may be an integer beyond 64 bits."""
    keys = depth = 0
    huge = False
    level: list[Any] = [value]
    while level:
        depth += 1
        below = []
        for item in level:
            if isinstance(item, dict):
                keys += len(item)
                item = item.values()
            for inner in item:
                kind = type(inner)
                if kind is dict or kind is list:
                    below.append(inner)
                elif kind is float and not -_LARGEST < inner < _LARGEST:
                    huge = True
        level = below
    return keys, depth, huge


def _refuse_large_integers(line: bytes) -> None:
    def check(digits: str) -> int:
        if len(digits) > 20 or not -(2**63) <= int(digits) < 2**64:
            raise Refused(
                "integer_too_large", "An integer has more than 64 bits and would be rounded",
                column=_column(line, digits.encode()), found=digits[:40], expected="at most 64 bits",
                hint="write it as a string",
            )  # fmt: skip
        return int(digits)

    json.loads(line, parse_int=check)


def _refuse_repeated_keys(line: bytes) -> None:
    def check(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            twice = next(name for position, name in enumerate(names) if name in names[:position])
            raise Refused(
                "duplicate_key", "An object has a key twice", found=repr(twice[:80]),
                expected="each key once",
                hint="remove or rename one of them",
            )  # fmt: skip

    json.loads(line, object_pairs_hook=check)


def _column(line: bytes, part: bytes) -> int:
    return len(line[: line.find(part)].decode()) + 1


def _not_json(line: bytes, error: orjson.JSONDecodeError) -> Refused:
    try:
        line.decode()
    except UnicodeDecodeError as broken:
        return Refused(
            "not_utf8", "Not valid UTF-8", column=len(line[: broken.start].decode()) + 1,
            found=f"byte 0x{line[broken.start]:02x}",
            hint="convert the file to UTF-8, for instance with iconv",
        )  # fmt: skip
    if "depth" in error.msg:
        return _too_deep(error.msg)
    reason, hint = "not_json", "correct or remove that line"
    rest = error.doc[error.pos : error.pos + 9] if isinstance(error.doc, str) else ""
    if "surrogate" in error.msg:
        reason, hint = "lone_surrogate", "replace the half character, for instance by \\ufffd"
    elif rest.lstrip("-").startswith(("NaN", "Infinity", "inf", "nan")) or "infinity" in error.msg:
        reason, hint = "not_a_number", "JSON has no NaN and no Infinity: write null"
    return Refused(
        reason, "Not valid JSON", column=error.colno, found=str(error.msg), expected="one JSON object a line",
        hint=hint,
    )  # fmt: skip


def _too_deep(found: str) -> Refused:
    return Refused("too_deep", "Objects and arrays are nested too deeply", found=found,
                   expected=f"at most {MAX_DEPTH} levels", hint="flatten the record")  # fmt: skip
