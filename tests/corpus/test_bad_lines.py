"""Bad lines of a raw shard: filed with their place, counted, and too many of them fail the shard."""

import gzip
import json
from typing import get_args

import pyarrow
import pyarrow.parquet
import pytest
import zstandard
from support import TINY, recipe_with

from zgcm.config.corpus import DemoSource
from zgcm.corpus.clean import clean_shard, summary_line
from zgcm.corpus.raw import make_raw
from zgcm.errors import ZgcmError
from zgcm.layout import Layout, source_shards
from zgcm.records import read_records

GOOD = {"text": "A sentence that is long enough to be kept by every step."}
BAD = [b'{"text": "cut', b'{"text": "caf\xe9"}', b'{"n": 123456789012345678901234567890}', b"[]",
       b'{"text": NaN}', b'{"a": 1, "a": 2}', b'{"text": "\\udc00"}',
       b'{"a":' * 300 + b"1" + b"}" * 300]  # fmt: skip
REASONS = ["not_json", "not_utf8", "integer_too_large", "not_an_object", "not_a_number", "duplicate_key",
           "lone_surrogate", "too_deep"]  # fmt: skip
PACK = {".jsonl": bytes, ".jsonl.gz": gzip.compress, ".jsonl.zst": zstandard.compress}


def files_recipe(path, **more):
    section = {"kind": "files", "files": [str(path)], "stage": "pretrain", "category": "general_text"}
    return recipe_with({**section, **more})


def lines_with_bad_ones():
    """100 records and the bad lines, a byte-order mark, CRLF, a blank line, a short text, U+2028."""
    good = [json.dumps({"id": str(number), **GOOD}).encode() for number in range(98)]
    good += [b'{"id": "98", "text": "short"}']
    good += ['{"id": "99", "text": "one\u2028line, and long enough"}'.encode()]
    lines = [good[0], *BAD, b"", *good[1:]]
    return b"\xef\xbb\xbf" + b"\r\n".join(lines) + b"\r\n"


def counts_add_up(summary):
    parts = ("kept", "review", "dropped", "rejected")
    return summary["in"] == sum(summary[name] for name in parts)


@pytest.mark.parametrize("ending", sorted(PACK))
def test_bad_lines_are_filed_with_their_place(tmp_path, ending):
    raw, layout = tmp_path / f"raw{ending}", Layout(tmp_path / "results")
    data = lines_with_bad_ones()
    raw.write_bytes(PACK[ending](data))
    summary = clean_shard(files_recipe(raw, max_bad_fraction=0.1), layout, "mine", "00000")
    assert counts_add_up(summary)
    assert (summary["in"], summary["rejected"], summary["dropped"]) == (108, 8, 1)
    assert summary["rejected_reasons"] == dict.fromkeys(REASONS, 1)
    assert "8 not readable" in summary_line(summary)
    filed = [row for row in read_records(layout.rejected("mine", "00000")) if row["decision"] == "rejected"]
    assert [row["reasons"] for row in filed] == [[reason] for reason in REASONS]
    assert [row["line"] for row in filed] == list(range(2, 10))
    for row, line in zip(filed, BAD, strict=True):
        assert row["file"] == str(raw)
        assert row["raw"].encode().decode("unicode_escape").encode("latin-1") == (line + b"\r")[:2000]
        assert data[row["offset"] : row["offset"] + row["bytes"]] == line + b"\r"
        assert row["detail"]
    kept = list(read_records(layout.cleaned("mine", "00000")))
    assert kept[-1]["data"]["text"] == "one\u2028line, and long enough"


def test_one_bad_line_in_a_thousand_is_allowed_and_one_more_is_not(tmp_path):
    raw, layout = tmp_path / "raw.jsonl", Layout(tmp_path / "results")
    good = json.dumps(GOOD).encode()
    raw.write_bytes(b"\n".join([*[good] * 999, b"{"]))
    summary = clean_shard(files_recipe(raw), layout, "mine", "00000")
    assert (summary["in"], summary["rejected"], summary["kept"]) == (1000, 1, 999)
    raw.write_bytes(b"\n".join([*[good] * 998, b"{", b"[]"]))
    expected = r"raw\.jsonl:999:2.*bad lines: 2 of 1,000.*raw\.jsonl:1000:1 not_an_object.*max_bad_fraction"
    with pytest.raises(ZgcmError, match=expected):
        clean_shard(files_recipe(raw), Layout(tmp_path / "other"), "mine", "00000")
    assert not [path for path in (tmp_path / "other").rglob("*") if path.is_file()]


def test_a_file_of_bad_lines_names_five_of_them(tmp_path):
    raw = tmp_path / "raw.jsonl"
    raw.write_bytes(b"nonsense\n" * 3000)
    with pytest.raises(ZgcmError, match=r"bad lines: 3,000 of 3,000") as caught:
        clean_shard(files_recipe(raw), Layout(tmp_path / "results"), "mine", "00000")
    assert caught.value.paragraph().count("raw.jsonl:") == 5


@pytest.mark.parametrize("ending", [*sorted(PACK), ".parquet"])
def test_one_file_as_many_shards(tmp_path, ending):
    raw, layout = tmp_path / f"raw{ending}", Layout(tmp_path / "results")
    rows = [{"id": str(number), "text": f"{number}: {'word ' * (number % 40 + 5)}"} for number in range(100)]
    if ending == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), raw, row_group_size=30)
    else:
        raw.write_bytes(PACK[ending](b"".join(json.dumps(row).encode() + b"\n" for row in rows)))
    recipe = files_recipe(raw, shards_per_file=4)
    shards = source_shards(recipe, "mine")
    assert shards == ["00000", "00001", "00002", "00003"]
    summaries = []
    for shard in shards:
        assert make_raw(recipe, layout, "mine", shard) == raw
        summaries.append(clean_shard(recipe, layout, "mine", shard))
    assert all(counts_add_up(summary) for summary in summaries)
    assert min(summary["in"] for summary in summaries) > 15
    assert sum(summary["bytes_in"] for summary in summaries) == raw.stat().st_size
    found = [row["source_id"] for shard in shards for row in read_records(layout.cleaned("mine", shard))]
    assert sorted(found, key=int) == [row["id"] for row in rows]
    assert found == sorted(found, key=int) or ending in (".jsonl.gz", ".jsonl.zst")


def test_more_shards_than_lines_says_so(tmp_path):
    raw = tmp_path / "raw.jsonl"
    raw.write_text(json.dumps(GOOD))
    with pytest.raises(ZgcmError, match=r"no record to clean.*lower sources\.mine\.shards_per_file"):
        clean_shard(files_recipe(raw, shards_per_file=3), Layout(tmp_path / "results"), "mine", "00002")


@pytest.mark.parametrize("source", TINY["sources"])
def test_counts_add_up_for_every_source_of_the_tiny_recipe(tmp_path, source):
    recipe = recipe_with({**TINY["sources"][source], "shards": 1, "documents": 20})
    layout = Layout(tmp_path / "results")
    make_raw(recipe, layout, "mine", "00000")
    summary = clean_shard(recipe, layout, "mine", "00000")
    assert counts_add_up(summary)
    planted = TINY["sources"][source].get("planted", 0)
    assert (summary["in"], summary["rejected"]) == (20 + planted, 0)


def test_the_tiny_recipe_has_a_source_of_every_content():
    every = get_args(DemoSource.model_fields["content"].annotation)
    assert {section["content"] for section in TINY["sources"].values()} == set(every)


@pytest.mark.slow
def test_a_line_of_100_megabytes(tmp_path):
    raw, layout = tmp_path / "raw.jsonl", Layout(tmp_path / "results")
    long = {"id": "long", "text": "word " * 20_000_000}
    raw.write_bytes(json.dumps(GOOD).encode() + b"\n" + json.dumps(long).encode() + b"\n")
    summary = clean_shard(files_recipe(raw), layout, "mine", "00000")
    assert (summary["in"], summary["kept"], summary["review"]) == (2, 1, 1)
    assert summary["reasons"] == {"too_long": 1}
