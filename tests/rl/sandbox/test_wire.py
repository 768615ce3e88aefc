"""Data crosses unchanged, and nothing that arrives is believed to be more than data."""

import json
from collections import Counter, OrderedDict, deque
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zgcm.rl.sandbox.inside import wire
from zgcm.rl.sandbox.inside.judge import free_names, used_as_classes
from zgcm.rl.sandbox.inside.wire import Violation

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(1 << 300), 1 << 300), st.floats(allow_nan=False),
    st.text(), st.binary(), st.dates(), st.datetimes(), st.fractions(), st.decimals(allow_nan=False),
    st.complex_numbers(allow_nan=False), st.just(range(3)),
)  # fmt: skip
KEYS = st.one_of(st.integers(), st.text(), st.tuples(st.booleans(), st.binary()))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner), st.tuples(inner, inner), st.dictionaries(KEYS, inner), st.sets(KEYS),
        st.frozensets(KEYS), st.lists(inner).map(deque), st.lists(KEYS).map(Counter),
        st.dictionaries(KEYS, inner).map(OrderedDict), st.binary().map(bytearray),
    ),
    max_leaves=12,
)  # fmt: skip


def refuse(value: Any) -> Any:
    raise Violation(str(value)[:50])


@settings(max_examples=100)
@given(VALUES)
def test_there_and_back(value: Any) -> None:
    again = wire.decode(wire.from_json(wire.to_json(wire.encode(value, refuse))), refuse)
    assert again == value and type(again) is type(value)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from([*"tszqdCOifbBcrT", "h", "home", "builtin"]), inner, max_size=2),
    ),
    max_leaves=10,
)


@settings(max_examples=150)
@given(JSON)
def test_json_is_that_of_the_standard_library(message: Any) -> None:
    text = json.dumps(message)
    assert wire.to_json(message).decode() == json.dumps(message, separators=(",", ":"))
    assert json.dumps(wire.from_json(text.encode())) == text


@pytest.mark.parametrize(
    "body", [b"", b" 1", b"1 2", b"[1,", b"nul", b"\xff", b'"\n"', b"{1:2}", b"'a'", b"9" * 5000, b'{"a":1}x']
)
def test_what_is_no_json(body: bytes) -> None:
    with pytest.raises(ValueError):
        wire.from_json(body)


def test_what_cannot_become_json() -> None:
    inside: list[Any] = []
    inside.append(inside)
    for value in (inside, object(), b"x", {1j: 1}):
        with pytest.raises((ValueError, TypeError)):
            wire.to_json(value)


@settings(max_examples=150, deadline=None)
@given(JSON)
def test_any_json_is_data_or_a_violation(message: Any) -> None:
    try:
        value = wire.decode(message, refuse)
    except Violation:
        return
    assert type(value).__module__ in ("builtins", "collections", "decimal", "fractions", "datetime")


def test_containers_keep_their_identity() -> None:
    row = [1, 2]
    mine = [row, {"a": [3]}]
    inner = mine[1]
    wire.update(mine, [[2, 1], {"a": [3, 4], "b": 5}])
    assert mine[0] is row and row == [2, 1] and mine[1] is inner and inner == {"a": [3, 4], "b": 5}
    with pytest.raises(Violation):
        wire.update([1], {"a": 1})


def test_decimals_and_fractions_are_exact() -> None:
    for value in (Decimal("1.10"), Fraction(-7, 3)):
        assert str(wire.decode(wire.encode(value, refuse), refuse)) == str(value)


@pytest.mark.parametrize(
    ("test", "names"),
    [
        ("assert f(1) == len([g(x) for x in range(3)])", {"f", "g"}),
        ("def check(candidate):\n    assert candidate(1) == h(2)\ncheck(solve)", {"h", "solve"}),
        ("def helper(solve): return solve\nhelper(solve)", {"solve"}),
        ("import math\nfrom os import path as p\nassert math.pi and p and all([q])", {"q"}),
        ("class A(B):\n    x = C\ntry: A()\nexcept E as e: print(e)", {"B", "C", "E"}),
    ],
)
def test_free_names(test: str, names: set[str]) -> None:
    assert free_names(test) == names


def test_used_as_classes() -> None:
    import ast

    test = "s = Stack()\ns.push(1)\nQueue().put(2)\nx = f(3)\nassert x == 4 and 5 in g(6)"
    assert used_as_classes(ast.parse(test)) == {"Stack", "Queue"}
