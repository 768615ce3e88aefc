"""`zgcm index`, `pack` and `inspect` on plain files."""

import json
import shutil

import numpy as np
import pytest
from token_workspace import document, sum_conversation

from zgcm.errors import ZgcmError
from zgcm.files import index as plain
from zgcm.records import read_records, write_records
from zgcm.tokens.indexed import open_indexed
from zgcm.tokens.tokenizer import load_tokenizer


def decoded(prefix, directory):
    tokenizer, indexed = load_tokenizer(directory), open_indexed(prefix)
    return [tokenizer.decode(indexed.document(row)[:-1]) for row in range(len(indexed))]


def test_files_become_one_index_in_their_order(call, two_files, tokenizer, tmp_path):
    prefix = tmp_path / "out" / "both"
    done = call("index", *two_files, "--tokenizer", tokenizer, "--output", prefix, "--json")
    report = json.loads(done.stdout)
    assert (report["documents"], [file["documents"] for file in report["files"]]) == (50, [30, 20])
    wanted = [row["text"] for path in two_files for row in read_records(path)]
    assert decoded(prefix, tokenizer) == wanted
    assert {path.name for path in prefix.parent.iterdir()} == {"both.bin", "both.idx", "both.index.json"}
    whole = tmp_path / "whole.jsonl"
    write_records(whole, [{"text": text} for text in wanted])
    alone = call("index", whole, "--tokenizer", tokenizer, "-o", tmp_path / "one")
    assert "tokenizers agrees on 32 documents" in alone.stdout
    for ending in ("bin", "idx"):
        assert (tmp_path / f"one.{ending}").read_bytes() == prefix.with_name(f"both.{ending}").read_bytes()
    again = call("index", *two_files, "--tokenizer", tokenizer, "-o", prefix, "--json")
    assert json.loads(again.stdout)["skipped"]


def test_joined_blocks_change_no_byte(call, two_files, tokenizer, tmp_path, monkeypatch):
    call("index", *two_files, "--tokenizer", tokenizer, "--output", tmp_path / "a")
    monkeypatch.setattr(plain, "BLOCK_TOKENS", 50)
    call("index", *two_files, "--tokenizer", tokenizer, "--output", tmp_path / "b")
    for ending in ("bin", "idx"):
        assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()


def test_an_interrupted_index_goes_on_with_the_file_it_was_at(call, two_files, tokenizer, tmp_path):
    good = two_files[1].read_bytes()
    two_files[1].write_bytes(good[:-5])
    command = ("index", *two_files, "--tokenizer", tokenizer, "--output", tmp_path / "both")
    with pytest.raises(ZgcmError, match=r"ends in the middle.*1 of 2 files failed"):
        call(*command)
    assert not (tmp_path / "both.idx").exists()
    two_files[1].write_bytes(good)
    assert "one.jsonl: done before; 30 documents" in call(*command).stderr
    assert len(open_indexed(tmp_path / "both")) == 50


def test_a_published_tokenizer_needs_no_manifest_of_ours(call, two_files, tokenizer, tmp_path):
    published = tmp_path / "published"
    published.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer / name, published / name)
    for directory, name in ((tokenizer, "ours"), (published, "theirs")):
        call("index", two_files[0], "--tokenizer", directory, "--output", tmp_path / name)
    assert (tmp_path / "ours.bin").read_bytes() == (tmp_path / "theirs.bin").read_bytes()
    with pytest.raises(ZgcmError, match="Not a tokenizer directory"):
        call("index", two_files[0], "--tokenizer", tmp_path, "--output", tmp_path / "x")


def test_other_fields_and_records_without_text(call, tokenizer, tmp_path):
    path = tmp_path / "x.jsonl"
    write_records(path, [{"title": "A title", "body": "a body"}, {"title": "", "body": "alone"}])
    fields = ("--text-field", "title", "--text-field", "body")
    call("index", path, "--tokenizer", tokenizer, "--output", tmp_path / "x", *fields)
    assert decoded(tmp_path / "x", tokenizer) == ["A title\na body", "alone"]
    with pytest.raises(ZgcmError, match=r"no text.*x\.jsonl:1.*body, title.*--text-field"):
        call("index", path, "--tokenizer", tokenizer, "--output", tmp_path / "y")


def test_conversations_of_files_are_packed(call, tokenizer, tmp_path):
    path, out = tmp_path / "talk.jsonl", tmp_path / "packed"
    write_records(path, [sum_conversation(a, b)["data"] for a in range(10, 16) for b in range(10, 16)])
    command = ("pack", path, "--seq-length", 128, "--tokenizer", tokenizer, "--output", out)
    dataset = json.loads(call(*command, "--json").stdout)
    assert (dataset["conversations"], dataset["sequence_length"], dataset["too_long"]) == (36, 128, 0)
    parts = (open_indexed(out / f"00000_{part}") for part in ("tokens", "targets", "cu_seqlens"))
    tokens, targets, boundaries = parts
    assert len(tokens) == dataset["train_records"]
    assert int(tokens.lengths.max()) <= 128
    assert sum(len(boundaries.document(row)) - 1 for row in range(len(boundaries))) == 36
    learned = np.asarray(targets.tokens) != -100
    assert int(learned.sum()) == dataset["learned_tokens"] > 0
    assert not (out / "index").exists()
    report = json.loads(call("inspect", out / "00000_tokens", "--tokenizer", tokenizer, "--json").stdout)
    assert report["problems"] == []
    assert report["first"][0]["text"].startswith("<|user|>What is")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["index", "in/one.jsonl"], "nothing says where.*zgcm index SOURCE SHARD"),
        (["index", "in/one.jsonl", "-o", "x"], "need --tokenizer"),
        (["pack", "in/one.jsonl", "--tokenizer", "t", "-o", "x"], "need --seq-length"),
        (["pack", "sft"], r"takes MIX SHARD.*--seq-length N --tokenizer DIR --output DIR"),
        (["inspect", "nothing"], "no such index.*without .bin"),
    ],
)
def test_errors_of_the_token_verbs_teach(call, two_files, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ZgcmError, match=message):
        call(*arguments)


def test_short_cuts_for_plain_texts_change_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("zgcm.records.lines.CHUNK_BYTES", 300)
    path = tmp_path / "x.jsonl"
    rows = [{"text": f"text {number} " * (number % 5)} for number in range(60)]
    rows[20] = sum_conversation(10, 20)["data"]
    rows[40] = document("a cleaned one", "40", record_sha256="0" * 64)
    write_records(path, rows)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes() + b"\n\n" + b'{"text": "last"}')
    found = list(plain.texts_or_documents(path, ("text",)))
    wanted = [
        row["data"]["text"] if isinstance(item, str) else row
        for row, item in zip(plain.as_documents(path, ("text",)), found, strict=True)
    ]
    assert found == wanted
    assert 15 < sum(isinstance(item, str) for item in found) < 59


@pytest.mark.parametrize("bad", [b'{"text":', b'{"text": 1,}', b"[1]", b"x"])
def test_a_bad_line_is_named_alike_with_and_without_short_cuts(tmp_path, bad):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"text": "one"}\n' + bad + b"\n")
    with pytest.raises(ZgcmError) as wanted:
        list(plain.as_documents(path, ("text",)))
    with pytest.raises(ZgcmError) as found:
        list(plain.texts_or_documents(path, ("text",)))
    assert str(found.value) == str(wanted.value)


def test_a_huge_file_is_tokenized_in_parts_to_the_same_bytes(call, tokenizer, tmp_path, monkeypatch):
    path = tmp_path / "huge.jsonl"
    rows = [{"text": f"text {number} " * (number % 7)} for number in range(90)]
    rows[20] = sum_conversation(10, 20)["data"]
    rows[60] = document("a cleaned one", "60", record_sha256="0" * 64)
    write_records(path, rows)
    call("index", path, "--tokenizer", tokenizer, "--output", tmp_path / "whole")
    monkeypatch.setattr(plain, "PART_BYTES", path.stat().st_size // 3)
    command = ("index", path, "--tokenizer", tokenizer, "--output", tmp_path / "parts", "--jobs", "2")
    done = call(*command, "--json")
    report = json.loads(done.stdout)
    assert [(file["documents"], file["file"]) for file in report["files"]] == [(90, str(path))]
    assert "huge.jsonl (4 of 4): " in done.stderr
    for ending in ("bin", "idx"):
        parts, whole = ((tmp_path / f"{name}.{ending}").read_bytes() for name in ("parts", "whole"))
        assert parts == whole
    assert json.loads(call(*command, "--json").stdout)["skipped"]


@pytest.mark.parametrize("bad", [b'{"text":', b'{"texts": "no text"}', b"[1]"])
def test_a_bad_line_in_a_part_is_named_by_its_place_in_the_file(call, tokenizer, tmp_path, monkeypatch, bad):
    path = tmp_path / "huge.jsonl"
    good = [b'{"text": "%d"}' % number for number in range(50)]
    path.write_bytes(b"\n".join([*good[:40], bad, *good[40:]]))
    monkeypatch.setattr(plain, "PART_BYTES", path.stat().st_size // 3)
    command = ("index", path, "--tokenizer", tokenizer, "--output", tmp_path / "parts")
    with pytest.raises(ZgcmError, match=rf"{path}:41.*1 of 4 files failed"):
        call(*command)
    path.write_bytes(b"\n".join([*good[:40], b'{"text": "mended"}', *good[40:]]))
    assert len(call(*command).stdout) and len(open_indexed(tmp_path / "parts")) == 51


def test_records_with_neither_text_nor_conversation_are_refused(call, tokenizer, tmp_path):
    for number, record in enumerate(({"messages": None}, {"messages": "x"}, {"messages": {}, "text": None})):
        path = tmp_path / f"{number}.jsonl"
        write_records(path, [{"text": "one"}, record])
        with pytest.raises(ZgcmError, match=rf"A record has no text.*{number}\.jsonl:2"):
            call("index", path, "--tokenizer", tokenizer, "--output", tmp_path / "x")


@pytest.mark.parametrize("kind", ["WordPiece", "WordLevel"])
def test_a_tokenizer_of_another_kind_is_told(call, two_files, tokenizer, tmp_path, kind):
    other = tmp_path / "other"
    shutil.copytree(tokenizer, other)
    (other / "manifest.json").unlink()
    content = json.loads((other / "tokenizer.json").read_text())
    vocabulary = content["model"]["vocab"]
    content["model"] = {"type": kind, "vocab": vocabulary, "unk_token": next(iter(vocabulary))}
    if kind == "WordPiece":
        content["model"] |= {"continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
    (other / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(ZgcmError, match="gigatoken cannot use this tokenizer"):
        call("index", two_files[0], "--tokenizer", other, "--output", tmp_path / "x")
