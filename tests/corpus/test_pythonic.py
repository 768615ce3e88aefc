"""Tool calls written as Python calls: literals, nesting, quoting, and texts that are no calls."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zgcm.corpus.pythonic import parse_calls, split_calls


def arguments(source):
    (call,) = parse_calls(source)
    assert call["type"] == "function"
    return call["function"]["arguments"]


def test_calls_end_at_their_parenthesis_or_line():
    text = "f(a=\")(\") g(b='\\')', c=(1, 2))\n\nh()"
    assert list(split_calls(text)) == ['f(a=")(")', "g(b='\\')', c=(1, 2))", "h()"]
    assert [call["function"]["name"] for call in parse_calls(text)] == ["f", "g", "h"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("f()", {}),
        ("f(1, 'x', k=None)", {"arg0": 1, "arg1": "x", "k": None}),
        ("f(**{'a': 1})", {"kwargs": {"a": 1}}),
        ("f(k=(1, {2}), d={1: [True]})", {"k": [1, [2]], "d": {"1": [True]}}),
        ("f(k=..., c=1+2j, v=other(3), n=-1.5)", {"k": "...", "c": "(1+2j)", "v": "other(3)", "n": -1.5}),
        ("a.b-c(x=1)", {"x": 1}),
        ("f(\n  x=1,\n  y=2\n)", {"x": 1, "y": 2}),
    ],
)
def test_arguments(source, expected):
    assert arguments(source) == expected


@pytest.mark.parametrize("source", ["f", "f(", "f)(", "(x)", "1f()", "f() g", "f(x=)", "f(a) + 1)", "f(x", 3])
def test_what_is_no_call_is_an_error(source):
    with pytest.raises((ValueError, SyntaxError)):
        parse_calls(source)


def test_no_calls():
    assert [parse_calls(value) for value in (None, "", " null", "None", [])] == [[]] * 5
    assert parse_calls([{"name": "f"}]) == [{"name": "f"}]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "city"]), values))
def test_literals_survive(given_arguments):
    source = "f(" + ", ".join(f"{name}={value!r}" for name, value in given_arguments.items()) + ")"
    assert arguments(source) == given_arguments
    assert json.loads(json.dumps(arguments(source))) == given_arguments
