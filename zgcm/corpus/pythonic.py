"""Tool calls written as Python calls, read without running them.

parse_calls('get_weather(city="Oslo", days=[1, 2])')
# [{"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Oslo", "days": [1, 2]}}}]
"""

import ast
import re
from collections.abc import Iterator
from typing import Any

Call = dict[str, Any]

_NAME = re.compile(r"[A-Za-z_][\w.\-]*")


def parse_calls(value: Any) -> list[Call]:
    """The calls of a text, one after the other; none for null or an empty text; a list as it is.

    Raises ValueError (SyntaxError for arguments that are no Python) for anything that is no call.
    """
    if isinstance(value, list):
        return value
    if value is None:
        return []
    if not isinstance(value, str):
        raise ValueError("calls are neither text nor a list")
    if value.strip().casefold() in ("", "null", "none"):
        return []
    return [_call(piece) for piece in split_calls(value)]


def split_calls(text: str) -> Iterator[str]:
    """Pieces that end where their parentheses close, or at a line's end outside of them. Quoted parentheses
    do not count."""
    start = depth = 0
    quote, escaped = "", False
    for position, character in enumerate(text):
        if quote:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == quote:
                quote = ""
            continue
        if character in "'\"":
            quote = character
        elif character in "()":
            depth += 1 if character == "(" else -1
        ends = (character == ")" and depth == 0) or (character == "\n" and depth == 0)
        if ends:
            if piece := text[start : position + 1].strip():
                yield piece
            start = position + 1
    if piece := text[start:].strip():
        yield piece


def _call(piece: str) -> Call:
    name, opened, rest = piece.partition("(")
    arguments, closed, tail = rest.rpartition(")")
    name = name.strip()
    if not opened or not closed or tail.strip() or not _NAME.fullmatch(name):
        raise ValueError(f"no call: {piece[:80]}")
    return {"type": "function", "function": {"name": name, "arguments": _arguments(arguments)}}


def _arguments(source: str) -> dict[str, Any]:
    """Keywords by name, positions as arg0, arg1, …; `**rest` as kwargs."""
    tree = ast.parse(f"f({source}\n)", mode="eval").body
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
        raise ValueError("the arguments end before the call does")
    found = {f"arg{index}": _value(node) for index, node in enumerate(tree.args)}
    return found | {keyword.arg or "kwargs": _value(keyword.value) for keyword in tree.keywords}


def _value(node: ast.expr) -> Any:
    """A literal as JSON has it; any other expression as its source."""
    try:
        return _plain(ast.literal_eval(node))
    except (ValueError, TypeError):
        return ast.unparse(node)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return [_plain(item) for item in sorted(value, key=repr)]  # sets have no order of their own
    if value is ...:
        return "..."
    if isinstance(value, bytes | complex):
        return str(value)
    return value
