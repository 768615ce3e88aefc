"""Parts of a file: together the whole file, each line once, with its place."""

import gzip
from itertools import pairwise

import pyarrow
import pyarrow.parquet
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from zgcm.errors import ZgcmError
from zgcm.records import lines, read_checked
from zgcm.records.badlines import escaped
from zgcm.records.lines import Part, line_number, part_bytes, read_line_blocks, read_lines

PACK = {".jsonl": bytes, ".jsonl.gz": gzip.compress, ".jsonl.zst": zstandard.compress}
CONTENTS = st.binary(max_size=60).map(lambda value: value.replace(b"x", b"\n").lstrip(b"\xff\xfe"))
"""Short lines, none, blank ones; no mark of UTF-16."""
ENDINGS = st.sampled_from(sorted(PACK))


@given(
    data=CONTENTS,
    parts=st.integers(1, 7),
    ending=ENDINGS,
    chunk=st.integers(1, 9),
)
@settings(max_examples=60)
def test_parts_are_the_whole(data, parts, ending, chunk, tmp_path_factory):
    path = tmp_path_factory.mktemp("parts") / f"x{ending}"
    path.write_bytes(PACK[ending](data))
    expected = data.split(b"\n")
    expected = expected[:-1] if not expected[-1] else expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "CHUNK_BYTES", chunk)
        found = [
            (line, Part(index, parts))
            for index in range(parts)
            for line in read_lines(path, Part(index, parts))
        ]
        numbers = [line_number(path, part, line) for line, part in found]
    assert sorted(numbers) == list(range(1, len(expected) + 1))
    for (line, _), number in zip(found, numbers, strict=True):
        assert line.data == expected[number - 1]
        assert data[line.offset : line.offset + line.size] == line.data
    if ending == ".jsonl":
        assert all(first < second for first, second in pairwise(numbers))
    assert sum(part_bytes(path, Part(index, parts)) for index in range(parts)) == path.stat().st_size


@given(
    data=CONTENTS,
    parts=st.integers(1, 5),
    ending=ENDINGS,
    chunk=st.integers(1, 9),
)
@settings(max_examples=60)
def test_blocks_are_the_lines(data, parts, ending, chunk, tmp_path_factory):
    path = tmp_path_factory.mktemp("blocks") / f"x{ending}"
    path.write_bytes(PACK[ending](data))
    parts = parts if ending == ".jsonl" else 1
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "CHUNK_BYTES", chunk)
        for index in range(parts):
            for offset, block in read_line_blocks(path, Part(index, parts)):
                for line in block:
                    found.append((offset, line.removesuffix(b"\n")))
                    offset += len(found[-1][1]) + 1
    assert found == [(line.offset, line.data) for line in read_lines(path)]


@pytest.mark.parametrize("parts", [1, 3, 8])
def test_parts_of_a_parquet_file(tmp_path, parts):
    path = tmp_path / "x.parquet"
    rows = [{"id": number} for number in range(50)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=7)
    found = [row for index in range(parts) for row in read_checked(path, Part(index, parts), pytest.fail)]
    assert found == rows


def test_a_parquet_text_that_is_not_utf8_is_one_bad_row(tmp_path):
    path = tmp_path / "x.parquet"
    texts = pyarrow.array([b"fine", b"caf\xe9", b"too"]).cast(pyarrow.binary())
    text = pyarrow.Array.from_buffers(pyarrow.string(), 3, texts.buffers())
    pyarrow.parquet.write_table(pyarrow.table({"text": text}), path)
    bad = []
    assert [row["text"] for row in read_checked(path, lines.WHOLE, bad.append)] == ["fine", "too"]
    assert [(line.number, line.refused.reason, line.offset) for line in bad] == [(2, "not_utf8", None)]


def test_two_parquet_columns_of_one_name_are_refused(tmp_path):
    path = tmp_path / "x.parquet"
    table = pyarrow.Table.from_arrays([pyarrow.array([1]), pyarrow.array([2])], names=["a", "a"])
    pyarrow.parquet.write_table(table, path)
    with pytest.raises(ZgcmError, match=r"two columns of one name.*found: a"):
        list(read_checked(path, lines.WHOLE, pytest.fail))


def test_a_line_beyond_the_limit_is_not_held_but_filed(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "CHUNK_BYTES", 100)
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 1000)
    monkeypatch.setattr("zgcm.records.files.MAX_LINE_BYTES", 1000)
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": "' + b"y" * 50_000 + b'"}\n{"a": 2}\n')
    assert max(len(line.data) for line in read_lines(path)) <= 1100
    bad = []
    assert [row["a"] for row in read_checked(path, lines.WHOLE, bad.append)] == [1, 2]
    assert [(line.number, line.offset, line.size, line.refused.reason) for line in bad] == [
        (2, 9, 50_009, "line_too_long")
    ]


def test_utf16_is_named(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes('{"a": 1}\n'.encode("utf-16"))
    with pytest.raises(ZgcmError, match=r"UTF-16.*iconv"):
        list(read_lines(path))


@given(st.binary(max_size=40))
def test_escaped_bytes_can_be_read_back(raw):
    text = escaped(raw)
    assert text.isascii()
    assert text.encode().decode("unicode_escape").encode("latin-1") == raw
