"""`zgcm clean FILE... --output DIR`: the same bytes as the recipe's form; resumable; errors that teach."""

import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from plain_texts import texts

from zgcm.corpus.clean import clean_shard
from zgcm.errors import ZgcmError
from zgcm.files.clean import CleanedLayout, file_source
from zgcm.files.plain import small_recipe
from zgcm.io import read_json
from zgcm.records import read_records, write_records

OPTIONS = ("--category", "general_text", "--stage", "pretrain")


def test_every_file_is_cleaned_as_a_source_of_its_own(call, two_files, tmp_path):
    out = tmp_path / "out"
    done = call("clean", *two_files, *OPTIONS, "--output", out, "--json")
    total = json.loads(done.stdout)
    assert (total["in"], total["kept"] + total["review"]) == (50, 50)
    assert [summary["in"] for summary in total["files"]] == [30, 20]
    assert done.stderr.count(" kept, ") == 2
    names = {path.name for path in out.iterdir()}
    assert names == {f"{name}.{kind}" for name in ("one", "two") for kind in
                     ("jsonl.zst", "rejected.jsonl", "summary.json")}  # fmt: skip
    keys = {"category": "general_text", "stage": "pretrain"}
    recipe = small_recipe({"one": file_source(two_files[0], keys)})
    again = clean_shard(recipe, CleanedLayout(tmp_path / "again"), "one", "00000")
    assert again["output_sha256"] == total["files"][0]["output_sha256"]


def test_files_that_are_done_are_skipped_until_content_or_settings_change(call, two_files, tmp_path):
    command = ("clean", *two_files, *OPTIONS, "--output", tmp_path / "out", "--json")

    def skipped(*more: object) -> list[bool]:
        files = json.loads(call(*command, *more).stdout)["files"]
        return [summary.get("skipped", False) for summary in files]

    assert skipped() == [False, False]
    assert skipped() == [True, True]
    (tmp_path / "out" / "one.jsonl.zst").unlink()
    assert skipped() == [False, True]
    write_records(two_files[1], [{"text": text} for text in texts(4)])
    assert skipped() == [True, False]
    settings = tmp_path / "more.yaml"
    settings.write_text("cleaning: {min_chars: 20}\n")
    assert skipped("--settings", settings) == [False, False]


@pytest.mark.parametrize(
    "more", [("--jobs", "2"), pytest.param(("--fanout", "local"), marks=pytest.mark.slow)]
)
def test_processes_and_job_arrays_write_the_same(call, two_files, tmp_path, more):
    def outputs(name: str, *options: str) -> dict[str, bytes]:
        call("clean", *two_files, *OPTIONS, "--output", tmp_path / name, *options)
        return {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}

    assert outputs("spread", *more) == outputs("here")


def test_one_bad_file_stops_no_other(call, two_files, tmp_path):
    two_files[0].write_text("nonsense\n")
    with pytest.raises(ZgcmError, match=r"Not valid JSON.*1 of 2 files failed"):
        call("clean", *two_files, *OPTIONS, "--output", tmp_path / "out")
    assert len(list(read_records(tmp_path / "out" / "two.jsonl.zst"))) == 20
    assert not (tmp_path / "out" / "one.summary.json").exists()
    assert read_json(tmp_path / "out" / "two.summary.json")["in"] == 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["in/one.jsonl"], r"nothing says where.*zgcm clean SOURCE SHARD.*FILE\.\.\. --category C"),
        (["demo_code"], "takes SOURCE SHARD, or files and --output"),
        (["demo_code", "00000", "--stage", "pretrain"], r"for plain files.*found: --stage"),
        (["none.jsonl", *OPTIONS, "-o", "x"], "No such file"),
        (["x.csv", *OPTIONS, "-o", "x"], "Not a file of records"),
        (["in/one.jsonl", "in/one.jsonl", *OPTIONS, "-o", "x"], "same output"),
        (["in/one.jsonl", "--category", "poetry", "--stage", "pretrain", "-o", "x"], "category.*poetry"),
        (["in/one.jsonl", "--category", "web", "-o", "x"], "stage: this key is required"),
        (["in/one.jsonl", *OPTIONS, "-o", "x", "--fanout", "moon"], "found: moon. expected: local, slurm"),
        (["in/one.jsonl", *OPTIONS, "-o", "x", "--fanout", "slurm", "--slurm", "time"], "KEY=VALUE"),
    ],
)
def test_errors_teach(call, two_files, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ZgcmError, match=message):
        call("clean", *arguments)
    assert not Path("x").exists()


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz", ".parquet"])
def test_one_huge_file_is_cleaned_in_shards(call, two_files, tmp_path, ending):
    rows = list(read_records(two_files[0]))
    path, out = tmp_path / f"huge{ending}", tmp_path / "out"
    if ending == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=4)
    else:
        write_records(path, rows)
    command = ("clean", path, *OPTIONS, "--output", out, "--shards-per-file", 3, "--jobs", "2", "--json")
    total = json.loads(call(*command).stdout)
    assert (total["in"], len(total["files"])) == (30, 3)
    names = [f"huge-{shard:05d}-of-00003.jsonl.zst" for shard in range(3)]
    assert sorted(file.name for file in out.glob("*.jsonl.zst")) == names
    call("clean", path, *OPTIONS, "--output", tmp_path / "whole")
    found = [row["record_sha256"] for name in names for row in read_records(out / name)]
    wanted = [row["record_sha256"] for row in read_records(tmp_path / "whole" / "huge.jsonl.zst")]
    assert sorted(found) == sorted(wanted)
    (out / names[1]).unlink()
    again = json.loads(call(*command).stdout)["files"]
    assert [summary.get("skipped", False) for summary in again] == [True, False, True]
    assert all((out / name).is_file() for name in names)
    assert ": 1 file in 3 shards, 30 in, " in call(*command[:-1]).stdout
    with pytest.raises(ZgcmError, match="another number of shards"):
        call("clean", path, *OPTIONS, "--output", out)


def test_more_shards_than_records_name_the_option(call, tmp_path):
    path = tmp_path / "small.jsonl"
    write_records(path, [{"text": text} for text in texts(2)])
    with pytest.raises(ZgcmError, match="lower --shards-per-file"):
        call("clean", path, *OPTIONS, "--output", tmp_path / "out", "--shards-per-file", "30")
