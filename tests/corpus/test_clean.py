"""A shard from raw to fingerprints: same bytes, counts that add up, clear errors, nothing half-written."""

import errno
import gzip
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest
import zstandard
from support import recipe_with

from zgcm import io
from zgcm.corpus import fingerprint
from zgcm.corpus.clean import REJECTED_CHARS, clean_shard, find_cleaned, summary_line
from zgcm.corpus.fingerprint import SCHEMA, exact_fingerprint, write_fingerprints
from zgcm.corpus.raw import make_raw
from zgcm.errors import ZgcmError
from zgcm.layout import Layout
from zgcm.records import read_records, record_sha256, write_records

ROOT = Path(__file__).parents[2]
ROWS = [
    {"id": "a", "text": "The first text of all, long enough to keep."},
    {"id": "b", "text": "short"},
    {"id": "c", "text": "password = hunter2hunter2hunter2"},
    {"id": "d", "text": ""},
    {"id": "e", "text": "the  FIRST text of all, long enough to keep.", "quality_score": 0.75},
    {"id": "f", "text": "x" * 20, "body": {"long": ["y" * 5000]}, "quality_score": 0.1},
]
POLICY = {"quality_policies": {"default": {"review_min": 0.5}}}


def files_recipe(path: Path, **more):
    return recipe_with(
        {"kind": "files", "files": [str(path)], "stage": "pretrain", "category": "general_text",
         "cleaning": POLICY, **more}
    )  # fmt: skip


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet"])
def test_clean_writes_three_files_whose_counts_add_up(tmp_path, ending):
    raw, layout = tmp_path / f"raw{ending}", Layout(tmp_path / "results")
    if ending == ".parquet":
        columns = {name: [row.get(name) for row in ROWS] for name in ROWS[-1]}
        pyarrow.parquet.write_table(pyarrow.table(columns), raw)
    else:
        write_records(raw, ROWS)
    recipe = files_recipe(raw)
    assert make_raw(recipe, layout, "mine", "00000") == raw
    summary = clean_shard(recipe, layout, "mine", "00000")
    assert (summary["in"], summary["kept"], summary["review"], summary["dropped"]) == (6, 2, 1, 3)
    assert summary["reasons"] == {
        "too_short": 1, "possible_secret": 1, "missing_text": 1, "quality_score_below_drop_threshold": 1,
    }  # fmt: skip
    cleaned = layout.cleaned("mine", "00000")
    records = list(read_records(cleaned))
    assert [record["source_id"] for record in records] == ["a", "c", "e"]
    assert [record["decision"] for record in records] == ["keep", "review", "keep"]
    assert records[0]["data"]["source"] == "mine"
    assert [record["record_sha256"] for record in records] == [
        record_sha256(item["data"]) for item in records
    ]
    assert records[0]["text_fields"] == ["text"]
    assert summary["output_sha256"] == hashlib.sha256(cleaned.read_bytes()).hexdigest()
    assert summary["characters"] == sum(len(record["data"]["text"]) for record in records)
    rejected = list(read_records(layout.rejected("mine", "00000")))
    assert [record["source_id"] for record in rejected] == ["b", "d", "f"]
    assert len(rejected[2]["data"]["body"]["long"][0]) == REJECTED_CHARS + 1
    assert io.read_json(layout.cleaning_summary("mine", "00000")) == summary
    line = summary_line(summary)
    assert line.startswith("mine 00000: 6 records in, 2 kept, 1 for review, 3 dropped")

    assert write_fingerprints(cleaned, layout.fingerprints("mine", "00000")) == 3
    table = pyarrow.parquet.read_table(layout.fingerprints("mine", "00000"))
    assert table.schema == SCHEMA
    rows = table.to_pylist()
    assert [row["row"] for row in rows] == [0, 1, 2]
    assert rows[0]["exact"] == rows[2]["exact"] != rows[1]["exact"]
    assert [row["quality"] for row in rows] == [None, None, 0.75]
    assert [row["chars"] for row in rows] == [len(record["data"]["text"]) for record in records]
    assert [row["source_id"] for row in rows] == ["a", "c", "e"]


def test_fingerprints_of_several_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(fingerprint, "ROWS_A_GROUP", 4)
    rows = [
        {"data": {"text": f"text {number}"}, "text_fields": ["text"], "source_id": "é" * number,
         "decision": "keep", "metrics": {"quality_score": number / 2} if number % 3 else {}}
        for number in range(11)
    ]  # fmt: skip
    write_records(tmp_path / "x.jsonl.zst", rows)
    assert write_fingerprints(tmp_path / "x.jsonl.zst", tmp_path / "x.fingerprints") == 11
    table = pyarrow.parquet.read_table(tmp_path / "x.fingerprints")
    table.validate(full=True)
    assert table.to_pylist() == [
        {"row": number, "exact": exact_fingerprint(f"text {number}"), "chars": 6 + number // 10,
         "source_id": "é" * number, "quality": number / 2 if number % 3 else None, "decision": "keep",
         "simhash": None}
        for number in range(11)
    ]  # fmt: skip


def test_exact_fingerprint_is_stable():
    assert exact_fingerprint("  Hello\r\nWORLD ").hex() == exact_fingerprint("hello\nworld").hex()
    assert exact_fingerprint("hello\nworld").hex() == "9b32ed3fe4b0707222962e00f9cd6b5a"
    assert exact_fingerprint("hello world") != exact_fingerprint("hello\nworld")


def test_same_bytes_in_another_process_with_another_hash_seed(tmp_path):
    code = (
        "import sys\nfrom zgcm.cli import corpus\nfrom zgcm.cli.app import app\n"
        "for source in ('demo_code', 'demo_conversations'):\n"
        "    for verb in ('raw', 'clean', 'fingerprint'):\n"
        "        app([verb, source, '00000', '--directory', sys.argv[1]], standalone_mode=False)\n"
    )
    digests = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        (tmp_path / seed).mkdir()
        subprocess.run(
            [sys.executable, "-c", code, tmp_path / seed],
            env=environment,
            cwd=ROOT,
            check=True,
            capture_output=True,
        )
        files = sorted(path for path in (tmp_path / seed).rglob("*") if path.is_file())
        digests.append([(path.relative_to(tmp_path / seed), io.sha256_file(path)) for path in files])
    assert len(digests[0]) == 10
    assert digests[0] == digests[1]


def test_the_command_line_says_one_paragraph_and_fails(tmp_path):
    (tmp_path / "recipe.yaml").write_text(
        "sources:\n  mine: {kind: files, files: [bad.jsonl], stage: pretrain, category: general_text}\n"
    )
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\n{"text": \n')
    recipes = ["--recipe", str(ROOT / "config" / "tiny.yaml"), "--recipe", "recipe.yaml"]
    command = [sys.executable, "-m", "zgcm.cli", "clean", "mine", "00000", *recipes]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("zgcm: Not valid JSON. at: bad.jsonl:2:10. found: ")
    assert done.stderr.count("\n") == 1
    done = subprocess.run([*command, "--json"], cwd=tmp_path, capture_output=True, text=True)
    assert json.loads(done.stderr)["where"] == "bad.jsonl:2:10"
    assert not (tmp_path / "results").exists() or not [*(tmp_path / "results").rglob("*.*")]


DAMAGED = {
    "empty.jsonl": (b"", "The file is empty"),
    "blank.jsonl": (b"\n \n", "no record to clean"),
    "empty.jsonl.zst": (zstandard.compress(b""), "no record to clean"),
    "empty.jsonl.gz": (gzip.compress(b""), "no record to clean"),
    "cut.jsonl.gz": (gzip.compress(b'{"text": "a"}\n' * 999)[:-9], "ends in the middle"),
    "cut.jsonl.zst": (zstandard.compress(b'{"text": "a"}\n' * 999)[:-3], "ends in the middle"),
    "json.jsonl": (b'{"text": "a"}\n{"text": \n', r"json\.jsonl:2:10"),
    "utf8.jsonl": (b'{"text": "a\xff"}\n', r"utf8\.jsonl:1:12"),
    "list.jsonl": (b"[]\n", r"list\.jsonl:1:1"),
    "x.csv": (b"a,b\n", r"\.parquet"),
    "x.parquet": (b"PAR1", "parquet"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_bad_input_is_named_and_leaves_nothing(tmp_path, name):
    data, message = DAMAGED[name]
    (tmp_path / name).write_bytes(data)
    layout = Layout(tmp_path / "results")
    with pytest.raises(ZgcmError, match=message) as caught:
        clean_shard(files_recipe(tmp_path / name), layout, "mine", "00000")
    assert name in caught.value.where
    assert caught.value.hint or caught.value.expected
    assert not [path for path in layout.root.rglob("*") if path.is_file()]


def test_missing_files_shards_and_sources(tmp_path):
    layout = Layout(tmp_path / "results")
    recipe = files_recipe(tmp_path / "none.jsonl")
    for act in (make_raw, clean_shard):
        with pytest.raises(ZgcmError, match="no raw shard 00000"):
            act(recipe, layout, "mine", "00000")
        with pytest.raises(ZgcmError, match="00000 to 00000"):
            act(recipe, layout, "mine", "00001")
        with pytest.raises(ZgcmError, match="demo_code, demo_prose"):
            act(recipe, layout, "yours", "00000")
    with pytest.raises(ZgcmError, match="zgcm raw demo_code 00000"):
        clean_shard(recipe, layout, "demo_code", "00000")
    with pytest.raises(ZgcmError, match="zgcm clean demo_code 00000"):
        find_cleaned(recipe, layout, "demo_code", "00000")


def test_a_cleaned_shard_edited_by_hand_is_refused(tmp_path):
    raw, layout = tmp_path / "raw.jsonl", Layout(tmp_path / "results")
    write_records(raw, ROWS)
    clean_shard(files_recipe(raw), layout, "mine", "00000")
    cleaned = find_cleaned(files_recipe(raw), layout, "mine", "00000")
    write_records(cleaned, list(read_records(cleaned))[1:])
    with pytest.raises(
        ZgcmError, match=r"changed after it was cleaned.*mine.*to do: restore.*zgcm clean mine"
    ):
        find_cleaned(files_recipe(raw), layout, "mine", "00000")


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    raw, layout = tmp_path / "raw.jsonl", Layout(tmp_path / "results")
    write_records(raw, ROWS)

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(io.os, "fsync", full)
    with pytest.raises(ZgcmError, match="disk is full"):
        clean_shard(files_recipe(raw), layout, "mine", "00000")
    assert not [path for path in layout.root.rglob("*") if path.is_file()]


def test_an_old_summary_never_describes_new_files(tmp_path, monkeypatch):
    raw, layout = tmp_path / "raw.jsonl", Layout(tmp_path / "results")
    write_records(raw, ROWS)
    clean_shard(files_recipe(raw), layout, "mine", "00000")
    summary = layout.cleaning_summary("mine", "00000")
    assert summary.exists()

    def stop(path: Path) -> str:
        assert not summary.exists()
        raise ZgcmError("Stopped here")

    monkeypatch.setattr("zgcm.corpus.clean.sha256_file", stop)
    with pytest.raises(ZgcmError, match="Stopped here"):
        clean_shard(files_recipe(raw), layout, "mine", "00000")


LONG = "A sentence that is long enough to be kept by every step."


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_a_shard_whose_text_lies_in_another_field_names_the_fields(tmp_path, ending):
    raw, layout = tmp_path / f"raw{ending}", Layout(tmp_path / "results")
    if ending == ".parquet":
        pyarrow.parquet.write_table(pyarrow.table({"id": ["1"], "story": [LONG]}), raw)
    else:
        write_records(raw, [{"id": "1", "story": LONG}])
    with pytest.raises(ZgcmError, match=r"has a text.*id, story.*sources\.mine\.text_fields"):
        clean_shard(files_recipe(raw), layout, "mine", "00000")
    assert not any(path.is_file() for path in layout.root.rglob("*"))


def test_text_fields_of_the_recipe_hold_in_pretraining_too(tmp_path):
    raw, layout = tmp_path / "raw.jsonl", Layout(tmp_path / "results")
    write_records(raw, [{"id": "1", "title": "A title", "story": LONG}])
    recipe = files_recipe(raw, text_fields=["title", "story"])
    assert clean_shard(recipe, layout, "mine", "00000")["kept"] == 1
    (record,) = read_records(layout.cleaned("mine", "00000"))
    assert record["text_fields"] == ["title", "story"]


def test_a_shard_of_which_nothing_is_kept_is_no_error(tmp_path):
    raw, layout = tmp_path / "raw.jsonl", Layout(tmp_path / "results")
    write_records(raw, [{"id": "1", "text": "short"}])
    summary = clean_shard(files_recipe(raw), layout, "mine", "00000")
    assert (summary["kept"], summary["dropped"]) == (0, 1)
