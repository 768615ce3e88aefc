"""Locks of local files: what is pinned stays what it was."""

import json

import pytest
from support import recipe_with

from zgcm.corpus.locking import describe_sources, lock_source
from zgcm.corpus.raw import find_raw, make_raw
from zgcm.errors import ZgcmError
from zgcm.layout import Layout, source_shards
from zgcm.records import write_records


@pytest.fixture
def locked(tmp_path):
    for name in ("b.jsonl", "a.jsonl.zst"):
        write_records(tmp_path / "data" / name, [{"text": name}])
    (tmp_path / "data" / "readme.md").write_text("not data")
    lock = str(tmp_path / "sources" / "mine.lock")
    return recipe_with({"kind": "files", "lock": lock, "stage": "pretrain", "category": "general_text"})


@pytest.mark.parametrize("form", ["directory", "pattern", "names"])
def test_files_are_listed_with_sizes_and_digests(tmp_path, locked, form):
    data = tmp_path / "data"
    paths = {"directory": [str(data)], "pattern": [f"{data}/*.jsonl*"],
             "names": [f"{data}/a.jsonl.zst", f"{data}/b.jsonl"]}[form]  # fmt: skip
    path, lock = lock_source(locked, "mine", paths)
    assert json.loads(path.read_text()) == lock
    assert (lock["source"], lock["kind"], lock["revision"], lock["assumed"]) == ("mine", "files", None, False)
    assert [file["path"] for file in lock["files"]] == [f"{data}/a.jsonl.zst", f"{data}/b.jsonl"]
    assert lock["files"][1]["bytes"] == len('{"text":"b.jsonl"}\n')
    assert source_shards(locked, "mine") == ["00000", "00001"]
    assert make_raw(locked, Layout(tmp_path), "mine", "00001") == data / "b.jsonl"
    row = describe_sources(locked)[-1]
    assert (row["source"], row["shards"]) == ("mine", 2)


def test_a_changed_file_is_refused(tmp_path, locked):
    lock_source(locked, "mine", [str(tmp_path / "data")])
    file = tmp_path / "data" / "b.jsonl"
    for changed, found in ((b'{"text":"B.jsonl"}\n', "sha256"), (b"{}\n", "3 bytes")):
        file.write_bytes(changed)
        with pytest.raises(ZgcmError, match="not the one that was locked") as caught:
            find_raw(locked, Layout(tmp_path), "mine", "00001")
        assert found in caught.value.found
    file.unlink()
    with pytest.raises(ZgcmError, match="locked file is missing"):
        find_raw(locked, Layout(tmp_path), "mine", "00001")


def test_what_cannot_be_locked(tmp_path, locked):
    with pytest.raises(ZgcmError, match="has no lock file"):
        source_shards(locked, "mine")
    assert describe_sources(locked)[-1]["shards"] is None
    for paths, message in (
        ([], "No files for source mine"),
        ([str(tmp_path / "data" / "*.parquet")], "No files for source mine"),
        ([str(tmp_path / "data" / "readme.md")], "Not a file of records"),
        ([str(tmp_path / "none.jsonl")], "No such file"),
    ):
        with pytest.raises(ZgcmError, match=message):
            lock_source(locked, "mine", paths)
    (tmp_path / "data" / "empty.jsonl").touch()
    with pytest.raises(ZgcmError, match="empty file"):
        lock_source(locked, "mine", [str(tmp_path / "data")])
    with pytest.raises(ZgcmError, match="no files to lock"):
        lock_source(locked, "demo_code", [])
    with pytest.raises(ZgcmError, match="no such source"):
        lock_source(locked, "yours", [])
