"""What other people's lines may look like: read exactly, or refused with a reason; never changed silently."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zgcm.records.parse import MAX_DEPTH, Refused, parse_checked, parse_object

numbers = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | st.text() | numbers
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner),
                      max_leaves=8)  # fmt: skip


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


@given(record=st.dictionaries(st.text(), values, max_size=4), spaced=st.booleans())
@settings(max_examples=60)
def test_every_record_that_json_can_write_is_read_as_it_is(record, spaced):
    line = json.dumps(record, ensure_ascii=spaced, separators=(", ", " : ") if spaced else None)
    try:
        line.encode()
    except UnicodeEncodeError:
        return
    assert parse_checked(line.encode()) == record


@pytest.mark.parametrize(
    "line",
    [
        b'{"text": "say \\"a\\": 1, \\"a\\": 2"}',
        b'{"a\\\\": 1, "b\\\\" : {"a\\\\": 2}}',
        b'{"a": [{"b": 1}, {"b": 2}], "b": {"a": 1}}',
        b'{"huge": 1e300, "small": -1.8e19, "edge": 18446744073709551615, "low": -9223372036854775808}',
        '{"text": "a\u2028b\x85c"}'.encode(),
        b'\xef\xbb\xbf{"a": 1}\r',
        nested(MAX_DEPTH),
    ],
)
def test_lines_that_only_look_bad_are_read(line):
    assert parse_checked(line) == json.loads(line.decode("utf-8-sig"))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"a": 1, "a": 2}', "duplicate_key"),
        (b'{"a":1,"a" :2}', "duplicate_key"),
        (b'{"x": [{"a\\\\": 1, "a\\\\": 2}]}', "duplicate_key"),
        (b'{"a": 18446744073709551616}', "integer_too_large"),
        (b'{"a": [-9223372036854775809]}', "integer_too_large"),
        (b'{"a": 1' + b"0" * 300 + b"}", "integer_too_large"),
        (b'{"a": NaN}', "not_a_number"),
        (b'{"a": -Infinity}', "not_a_number"),
        (b'{"a": "\\ud800"}', "lone_surrogate"),
        (b'{"a": "\xed\xa0\x80"}', "not_utf8"),
        (b'{"a": "caf\xe9"}', "not_utf8"),
        (b"{'a': 1}", "not_json"),
        (b"[1]", "not_an_object"),
        (nested(MAX_DEPTH + 1), "too_deep"),
        (nested(5000), "too_deep"),
    ],
)
def test_bad_lines_have_a_reason(line, reason):
    with pytest.raises(Refused) as caught:
        parse_checked(line)
    assert caught.value.reason == reason
    assert caught.value.what
    assert caught.value.hint


def test_our_own_files_are_read_without_the_checks():
    assert parse_object(b'{"a": 1, "a": 2}') == {"a": 2}
