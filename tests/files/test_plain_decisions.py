"""Cleaned records that are for review take part in the verbs on plain files only where --include says so."""

import json

import pytest
from plain_texts import texts
from token_workspace import document, sum_conversation

from zgcm.errors import ZgcmError
from zgcm.records import read_records, write_records
from zgcm.tokens.indexed import open_indexed

SHA = {"record_sha256": "0" * 64}
REVIEW = {"decision": "review", "reasons": ["possible_secret"], "flags": ["possible_secret"]}
LEFT_OUT = "left out: 3 of decision review (--include review takes these)"


@pytest.fixture
def cleaned(tmp_path):
    """Ten cleaned records of which three are for review, and two raw ones."""
    path = tmp_path / "x.jsonl"
    marks = [REVIEW if row % 4 == 1 else {} for row in range(10)]
    rows = [
        document(text, f"x:{row}", **SHA, **mark)
        for row, (text, mark) in enumerate(zip(texts(10), marks, strict=True))
    ]
    write_records(path, [*rows, *({"text": text} for text in texts(2, seed=6))])
    return path


@pytest.mark.parametrize("verb", ["index", "dedup", "decontaminate", "mix"])
def test_review_is_left_out_counted_and_can_be_included(verb, call, cleaned, tokenizer, tmp_path):
    exam = tmp_path / "exam.jsonl"
    write_records(exam, [{"question": "nothing of this stands in any of the texts of these files here"}])
    more = {"index": ["--tokenizer", tokenizer], "mix": ["--tokenizer", tokenizer]}
    more |= {"dedup": [], "decontaminate": ["--against", exam]}
    sizes = {}
    for name, include in (("keep", []), ("both", ["--include", "review"])):
        out = tmp_path / name / "out"
        command = (verb, cleaned, *more[verb], *include, "--output", out)
        line = call(*command).stdout
        report = json.loads(call(*command, "--json").stdout)
        assert report["left_out"] == ({} if include else {"review": 3})
        assert (LEFT_OUT in line) == (not include)
        if verb in ("dedup", "decontaminate"):
            assert (report["in"], report["removed"]) == (12, 0), "what is left out is not removed too"
            assert "decision:" not in line
        if verb == "index":
            sizes[name] = len(open_indexed(out))
        elif verb == "mix":
            sizes[name] = len(open_indexed(out / "00000_text_document"))
        else:
            records = list(read_records(out / "x.jsonl.zst"))
            sizes[name] = len(records)
            assert bool(include) == any(record.get("decision") == "review" for record in records)
    assert sizes == {"keep": 9, "both": 12}


def test_conversations_for_review_are_not_packed(call, tokenizer, tmp_path):
    path = tmp_path / "talk.jsonl"
    talks = [sum_conversation(a, 7) for a in range(10, 14)]
    write_records(path, [{**talk, **SHA, **(REVIEW if row == 2 else {})} for row, talk in enumerate(talks)])
    command = ("pack", path, "--seq-length", 128, "--tokenizer", tokenizer)
    for include, count in (((), 3), (("--include", "review"), 4)):
        done = call(*command, *include, "--output", tmp_path / f"out{count}", "--json")
        report = json.loads(done.stdout)
        assert (report["conversations"], report["left_out"].get("review", 0)) == (count, 4 - count)


@pytest.mark.parametrize("decision", ["review", "drop"])
@pytest.mark.parametrize("verb", ["mix", "pack"])
def test_where_every_record_is_left_out_it_says_what_to_do(verb, decision, call, tokenizer, tmp_path):
    path, mark = tmp_path / "x.jsonl", {**SHA, **REVIEW, "decision": decision}
    rows = {"mix": [document(text, f"x:{row}") for row, text in enumerate(texts(3))]}
    rows["pack"] = [sum_conversation(a, 7) for a in range(10, 13)]
    write_records(path, [{**row, **mark} for row in rows[verb]])
    length = ("--seq-length", 128) if verb == "pack" else ()
    with pytest.raises(ZgcmError, match="Every record is left out for its decision") as caught:
        call(verb, path, *length, "--tokenizer", tokenizer, "--output", tmp_path / "out")
    assert str(path) in caught.value.where and caught.value.found == f"3 of decision {decision}"
    assert ("--include review" in caught.value.hint) == (
        decision == "review"
    ) and "bring" in caught.value.hint


def test_files_that_lie_between_are_said_in_each_line(call, cleaned, tokenizer, tmp_path):
    other = tmp_path / "y.jsonl"
    write_records(other, [{"text": "one more"}])
    done = call("index", cleaned, other, "--tokenizer", tokenizer, "--output", tmp_path / "both")
    assert LEFT_OUT in done.stdout and done.stderr.count("left out") == 1


def test_only_review_can_be_included(call, cleaned, tmp_path):
    with pytest.raises(ZgcmError, match=r"No such decision to include. found: drop. expected: keep, review"):
        call("dedup", cleaned, "--include", "drop", "--output", tmp_path / "out")


def test_a_damaged_cleaned_record_is_named(call, tokenizer, tmp_path):
    path = tmp_path / "x.jsonl"
    write_records(path, [document("a text", "1", **SHA, metrics={"quality_score": "high"})])
    with pytest.raises(ZgcmError, match=r"no cleaner writes. at: .*x\.jsonl:1. found: metrics"):
        call("index", path, "--tokenizer", tokenizer, "--output", tmp_path / "out")
