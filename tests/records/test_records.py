"""Records: what is written is read back, and every damage is named with its place."""

import datetime
import gzip
import json
from pathlib import Path

import orjson
import pyarrow
import pyarrow.parquet
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from zgcm.errors import ZgcmError
from zgcm.records import open_records, read_numbered, read_records, record_sha256, write_records

TEXT_FORMATS = (".jsonl", ".jsonl.gz", ".jsonl.zst")
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner),
                      max_leaves=8)  # fmt: skip
records = st.lists(st.dictionaries(st.text(), values, max_size=4), max_size=8)


def pack(name: str, data: bytes) -> bytes:
    if name.endswith(".gz"):
        return gzip.compress(data)
    return zstandard.compress(data) if name.endswith(".zst") else data


@given(records=records, ending=st.sampled_from(TEXT_FORMATS))
@settings(max_examples=60)
def test_round_trip(records, ending, tmp_path_factory):
    path = tmp_path_factory.mktemp("round") / f"x{ending}"
    assert write_records(path, records) == len(records)
    assert list(read_records(path)) == orjson.loads(orjson.dumps(records))


@pytest.mark.parametrize("ending", TEXT_FORMATS)
def test_same_records_same_bytes(tmp_path, ending):
    rows = [{"b": 1, "a": {"d": "x\u2028y", "c": [1.5]}}, {"a": 2}]
    first, second = tmp_path / f"first{ending}", tmp_path / f"second{ending}"
    write_records(first, rows)
    write_records(second, [dict(reversed(row.items())) for row in rows])
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x1c"])
def test_only_line_feed_ends_a_line(tmp_path, separator):
    path = tmp_path / "x.jsonl"
    write_records(path, [{"text": f"a{separator}b"}, {"text": "c"}])
    assert [row["text"] for row in read_records(path)] == [f"a{separator}b", "c"]


def test_windows_line_ends_blank_lines_byte_order_mark_and_no_final_line_end(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a":1}\r\n\n   \n{"a":2}')
    assert list(read_numbered(path)) == [(1, {"a": 1}), (4, {"a": 2})]


def test_lines_longer_than_a_chunk(tmp_path):
    path = tmp_path / "x.jsonl.zst"
    rows = [{"text": "ab" * 200_000}, {"text": "c"}]
    write_records(path, rows)
    assert list(read_records(path)) == rows


def test_several_frames_in_one_file(tmp_path):
    path = tmp_path / "x.jsonl.zst"
    path.write_bytes(zstandard.compress(b'{"a":1}\n') + zstandard.compress(b'{"a":2}\n'))
    assert [row["a"] for row in read_records(path)] == [1, 2]
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"a":1}\n') + gzip.compress(b'{"a":2}\n'))
    assert [row["a"] for row in read_records(path)] == [1, 2]


@pytest.mark.parametrize("ending", TEXT_FORMATS)
@pytest.mark.parametrize(
    ("line", "message", "column"),
    [
        (b'{"text": "a", }', "Not valid JSON", 13),
        ('{"text": "é\\q"}'.encode(), "Not valid JSON", 12),
        (b'{"text": "caf\xe9"}', "Not valid UTF-8", 14),
        ('{"text": "é'.encode() + b'\xff"}', "Not valid UTF-8", 12),
        (b"[1, 2]", "A record is a JSON object", 1),
        (b"{", "Not valid JSON", 2),
        (b'{"x": NaN}', "Not valid JSON", 7),
    ],
)
def test_bad_lines_are_named_with_line_and_column(tmp_path, ending, line, message, column):
    path = tmp_path / f"bad{ending}"
    path.write_bytes(pack(path.name, b'{"text": "fine"}\n' + line + b"\n"))
    with pytest.raises(ZgcmError, match=message) as caught:
        list(read_records(path))
    assert caught.value.where == f"{path}:2:{column}"
    assert caught.value.hint


@pytest.mark.parametrize("ending", [".jsonl.gz", ".jsonl.zst"])
def test_truncated_and_damaged_files(tmp_path, ending):
    path = tmp_path / f"x{ending}"
    write_records(path, [{"text": f"{number} {number**5}"} for number in range(5000)])
    data = path.read_bytes()
    for cut in (len(data) - 1, len(data) // 2, 3):
        path.write_bytes(data[:cut])
        with pytest.raises(ZgcmError, match="ends in the middle") as caught:
            list(read_records(path))
        assert caught.value.where == str(path)
    path.write_bytes(b"plain text, not compressed")
    with pytest.raises(ZgcmError, match="Not a valid"):
        list(read_records(path))


def test_parquet(tmp_path):
    path = tmp_path / "x.parquet"
    rows = [{"id": str(number), "messages": [{"role": "user", "content": "hi"}]} for number in range(3000)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    assert list(read_records(path)) == rows
    odd = {"when": datetime.date(2026, 6, 3), "score": float("nan"), "raw": b"\xff", "text": "é".encode()}
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([odd]), path)
    assert list(read_records(path)) == [{"when": "2026-06-03", "score": None, "raw": r"b'\xff'", "text": "é"}]
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ZgcmError, match="parquet"):
        list(read_records(path))


def test_missing_directory_and_unknown_ending(tmp_path):
    for name in ("x.jsonl", "x.parquet"):
        with pytest.raises(ZgcmError, match="missing"):
            list(read_records(tmp_path / name))
    (tmp_path / "d.jsonl").mkdir()
    with pytest.raises(ZgcmError, match="directory"):
        list(read_records(tmp_path / "d.jsonl"))
    with pytest.raises(ZgcmError, match=r"\.jsonl\.zst"):
        read_records(Path("x.csv"))


def test_a_failed_write_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError), open_records(tmp_path / "x.jsonl.zst") as write:
        write({"a": 1})
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_record_digest_is_the_published_one():
    data = {"text": "héllo", "n": 1, "source": "s"}
    assert record_sha256(data) == "fe140fbd7c973b6d24841867164a5fd155a236abdebb65970c1a3a4a28703bc0"
    assert json.loads(json.dumps(data)) == data
