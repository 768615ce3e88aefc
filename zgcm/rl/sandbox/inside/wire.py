"""Values as JSON between the tests' process and the candidate's: data by value, everything else by handle.

Nothing that arrives is executed: the other side can say data, handles and names of builtin exceptions, no
more. (pickle and marshal would let it run code or crash the reader.)
"""

from __future__ import annotations

import os
import sys
from _json import encode_basestring_ascii, make_encoder, make_scanner  # of json, without `re`
from collections import Counter, OrderedDict, deque

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs every jail 6 ms of 25, json's Python half another 7
    from collections.abc import Callable
    from typing import Any

    Handle = Callable[[Any], Any]

MESSAGE_BYTES = 8 << 20
DEPTH = 150
BY_MEMBERS = {
    "t": tuple, "s": set, "z": frozenset, "q": deque,
}  # fmt: skip
BY_PAIRS = {"d": dict, "C": Counter, "O": OrderedDict}
BY_TEXT = {
    "Decimal": "decimal", "Fraction": "fractions",
    "date": "datetime", "datetime": "datetime", "time": "datetime",
}  # fmt: skip
MUTABLE = (list, dict, set, bytearray, deque, Counter, OrderedDict)


class Violation(Exception):
    """The other side said what the protocol does not know."""


class Gone(BaseException):
    """The other side has ended. No test's `except Exception` may take it for an answer."""


class _Scanning:
    """json.JSONDecoder's defaults, as far as the scanner in C reads them."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, float


def _no_json(value: Any) -> Any:
    raise TypeError(f"{type(value).__name__} is no JSON")


_scan = make_scanner(_Scanning)  # type: ignore[arg-type]


def to_json(message: Any) -> bytes:
    """Compact, ASCII. Raises ValueError, TypeError or RecursionError, as json.dumps does."""
    encoder = make_encoder({}, _no_json, encode_basestring_ascii, None, ":", ",", False, False, True)
    return "".join(encoder(message, 0)).encode()


def from_json(body: bytes) -> Any:
    """Raises ValueError (or RecursionError) for what is not exactly one value without space around it."""
    text = body.decode()
    try:
        value, end = _scan(text, 0)
    except StopIteration as error:
        raise ValueError("no JSON") from error
    if end != len(text):
        raise ValueError("more than one value")
    return value


def send(descriptor: int, message: Any) -> None:
    body = to_json(message)
    if len(body) > MESSAGE_BYTES:
        raise ValueError("a value of more than 8 MiB")
    data = memoryview(len(body).to_bytes(4) + body)
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError as error:
        raise Gone from error


def receive(descriptor: int) -> Any:
    size = int.from_bytes(_exactly(descriptor, 4))
    if size > MESSAGE_BYTES:
        raise Violation("a message of more than 8 MiB")
    try:
        return from_json(_exactly(descriptor, size))
    except (ValueError, RecursionError) as error:
        raise Violation("no JSON") from error


def _exactly(descriptor: int, size: int) -> bytes:
    parts, left = [], size
    while left:
        try:
            part = os.read(descriptor, min(left, 1 << 20))
        except OSError as error:
            raise Gone from error
        if not part:
            raise Gone
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def encode(value: Any, handle: Handle, depth: int = 0) -> Any:
    """JSON of a value. Exact builtin types by value; others are what `handle` says of them."""
    kind = type(value)
    if depth > DEPTH:
        raise ValueError(f"a value nested more than {DEPTH} deep, or inside itself")
    if value is None or kind in (bool, str):
        return value
    if kind is int:
        return value if -(1 << 63) <= value < 1 << 63 else {"i": hex(value)}
    if kind is float:
        return value if value - value == 0 else {"f": str(value)}
    if kind is list:
        return [encode(item, handle, depth + 1) for item in value]
    for tag, members in BY_MEMBERS.items():
        if kind is members:
            return {tag: [encode(item, handle, depth + 1) for item in value]}
    for tag, pairs in BY_PAIRS.items():
        if kind is pairs or (
            kind.__name__ == "defaultdict" and kind.__module__ == "collections" and tag == "d"
        ):
            return {
                tag: [[encode(k, handle, depth + 1), encode(v, handle, depth + 1)] for k, v in value.items()]
            }
    if kind in (bytes, bytearray):
        return {"b" if kind is bytes else "B": value.hex()}
    if kind is complex:
        return {"c": [encode(value.real, handle), encode(value.imag, handle)]}
    if kind is range:
        return {"r": [encode(part, handle) for part in (value.start, value.stop, value.step)]}
    module = BY_TEXT.get(kind.__name__)
    if module and getattr(sys.modules.get(module), kind.__name__, None) is kind:
        return {"T": [kind.__name__, value.isoformat() if module == "datetime" else str(value)]}
    return handle(value)


def decode(message: Any, handle: Handle) -> Any:
    """The value of a JSON; `handle` resolves objects that are not data. Raises Violation."""
    if isinstance(message, list):
        return [decode(item, handle) for item in message]
    if not isinstance(message, dict):
        return message
    if len(message) != 1:
        return handle(message)
    ((tag, content),) = message.items()
    try:
        if tag in BY_MEMBERS:
            return BY_MEMBERS[tag]([decode(item, handle) for item in content])
        if tag in BY_PAIRS:
            made = BY_PAIRS[tag]()
            for key, value in content:
                made[decode(key, handle)] = decode(value, handle)
            return made
        return _scalar(tag, content, handle)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise Violation(f"no value: {tag}") from error


def _scalar(tag: str, content: Any, handle: Handle) -> Any:
    if tag == "i":
        return int(content, 16)
    if tag == "f":
        return float(content)
    if tag == "b":
        return bytes.fromhex(content)
    if tag == "B":
        return bytearray.fromhex(content)
    if tag == "c":
        return complex(*(decode(part, handle) for part in content))
    if tag == "r":
        return range(*(decode(part, handle) for part in content))
    if tag == "T":
        name, text = content
        if name not in BY_TEXT or not isinstance(text, str):
            raise Violation(f"no value: {name}")
        made: Any = getattr(__import__(BY_TEXT[name]), name)
        return made.fromisoformat(text) if BY_TEXT[name] == "datetime" else made(text)
    return handle({tag: content})


def update(mine: Any, now: Any) -> None:
    """Make a container hold what the other side left in its copy; inner containers stay the same objects."""
    if isinstance(mine, list) and isinstance(now, list) and len(mine) == len(now):
        for place, (old, new) in enumerate(zip(mine, now, strict=True)):
            if type(old) is type(new) and isinstance(old, MUTABLE):
                update(old, new)
            elif old is not new and (type(old) is not type(new) or old != new):
                mine[place] = new
    elif isinstance(mine, list | bytearray) and type(mine) is type(now):
        mine[:] = now
    elif isinstance(mine, dict) and isinstance(now, dict):
        for key in now:
            old, new = mine.get(key), now[key]
            if type(old) is type(new) and isinstance(old, MUTABLE):
                update(old, new)
                now[key] = old
        mine.clear()
        mine.update(now)
    elif isinstance(mine, set | deque) and type(mine) is type(now):
        mine.clear()
        mine.update(now) if isinstance(mine, set) else mine.extend(now)
    else:
        raise Violation("an argument changed its type")
