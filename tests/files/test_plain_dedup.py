"""`zgcm dedup FILE... --output DIR` and `zgcm decontaminate FILE... --against EVAL --output DIR`."""

import json

import pyarrow.parquet as pq
import pytest
from plain_texts import texts

from zgcm.errors import ZgcmError
from zgcm.records import read_records, write_records

LONG = [f"{text} {text[::-1]} " * 3 for text in texts(8)]


def words_of(text, change):
    parts = text.split()
    parts[change] = "changed"
    return " ".join(parts)


@pytest.fixture
def repeated(tmp_path):
    """The second file repeats two texts of the first, one of them in another case, and nearly a third."""
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl.zst"
    write_records(first, [{"id": f"a{row}", "text": text, "n": row} for row, text in enumerate(LONG[:4])])
    again = [LONG[4], LONG[0], LONG[1].upper(), words_of(LONG[2], -1)]
    write_records(second, [{"id": f"b{row}", "text": text} for row, text in enumerate(again)])
    return first, second


def left(out, name):
    return [record["id"] for record in read_records(out / f"{name}.jsonl.zst")]


@pytest.mark.parametrize(
    ("options", "survivors", "reasons"),
    [
        ((), ["b0", "b3"], {"exact_duplicate": 2}),
        (("--near", "--jobs", "2"), ["b0"], {"exact_duplicate": 2, "near_duplicate": 1}),
    ],
)
def test_the_first_file_keeps_its_records(call, repeated, tmp_path, options, survivors, reasons):
    out = tmp_path / "out"
    summary = json.loads(call("dedup", *repeated, "--output", out, "--json", *options).stdout)
    assert summary["reasons"] == reasons
    assert (summary["in"], summary["left"] + summary["removed"]) == (8, 8)
    assert (left(out, "a"), left(out, "b")) == (["a0", "a1", "a2", "a3"], survivors)
    assert next(read_records(out / "a.jsonl.zst"))["n"] == 0
    removed = pq.read_table(out / "duplicates.parquet").to_pylist()
    assert {row["source"] for row in removed} == {"b"}
    assert {row["of_source"] for row in removed} == {"a"}
    names = {path.name for path in out.iterdir()}
    assert names == {"a.jsonl.zst", "b.jsonl.zst", "duplicates.parquet", "dedup.json"}


def test_texts_of_evaluations_are_taken_out(call, tmp_path):
    question = "How many apples are left when Ada gives seven of her forty one apples to Ben and Carl today"
    evaluation, path, out = tmp_path / "exam.jsonl", tmp_path / "x.jsonl", tmp_path / "out"
    write_records(evaluation, [{"question": question}])
    write_records(path, [{"text": LONG[0]}, {"text": f"Copied: {question}?"}, {"text": LONG[1]}])
    command = ("decontaminate", path, "--against", evaluation, "--output", out)
    summary = json.loads(call(*command, "--json").stdout)
    assert (summary["in"], summary["removed"]) == (3, 1)
    assert [record["text"] for record in read_records(out / "x.jsonl.zst")] == LONG[:2]
    (removed,) = read_records(out / "x.removed.jsonl")
    assert (removed["row"], removed["item"]) == (1, 1)
    assert "ada gives seven" in removed["ngram"]
    assert json.loads(call(*command, "--json").stdout)["files"][0]["skipped"]


def test_conversations_are_compared_and_searched_whatever_their_text_field_says(call, tmp_path):
    """Of a record with both, `index` takes the conversation."""
    answer = {"role": "assistant", "content": "Yes."}
    talks = [[{"role": "user", "content": text}, answer] for text in LONG[:2]]
    path, evaluation = tmp_path / "talks.jsonl", tmp_path / "exam.jsonl"
    rows = [{"id": f"{n}{m}", "text": f"a {m} of {n}", "messages": talks[n]} for n in (0, 1) for m in "xy"]
    write_records(path, [*rows, {"id": "other", "text": "a x of 0"}])
    write_records(evaluation, [{"question": LONG[1]}])
    call("dedup", path, "--output", tmp_path / "unique")
    assert left(tmp_path / "unique", "talks") == ["0x", "1x", "other"]
    call("decontaminate", path, "--against", evaluation, "--output", tmp_path / "final")
    assert left(tmp_path / "final", "talks") == ["0x", "0y", "other"]


def test_dedup_teaches_both_forms(call, repeated):
    with pytest.raises(ZgcmError, match=r"zgcm dedup MIX; for files: zgcm dedup FILE\.\.\. \[--near\]"):
        call("dedup", *repeated)
