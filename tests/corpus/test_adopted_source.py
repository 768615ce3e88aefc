"""`cleaned: true`: records are taken as they are, judged by nobody."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.corpus.support import recipe_with
from zgcm.corpus.clean import clean_shard
from zgcm.corpus.fingerprint import write_fingerprints
from zgcm.errors import ZgcmError
from zgcm.layout import Layout
from zgcm.records import read_records


def adopt(
    tmp_path: Path, rows: list[dict[str, Any]], **keys: Any
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The summary of one adopted shard and its records."""
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return clean(tmp_path / "results", file, cleaned=True, **keys)


def clean(root: Path, file: Path, **keys: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    source = {"kind": "files", "files": [str(file)], "stage": "posttrain", "category": "instruction", **keys}
    layout = Layout(root)
    summary = clean_shard(recipe_with(source), layout, "mine", "00000")
    return summary, list(read_records(layout.cleaned("mine", "00000")))


def test_nothing_is_judged(tmp_path: Path) -> None:
    """A cleaner would drop each: too short, a mail address, no license, an answer that says nothing."""
    texts = ["x", "write to someone@mail.de", "\tindented  twice "]
    summary, records = adopt(tmp_path, [{"text": text} for text in texts])
    assert [record["data"]["text"] for record in records] == texts
    assert {record["decision"] for record in records} == {"keep"}
    assert (summary["kept"], summary["review"], summary["dropped"]) == (3, 0, 0)
    assert summary["adopted"] is True
    assert summary["pipeline"] == ["require_adopted_text", "stamp_text_digest"]


def test_conversations_are_told_apart(tmp_path: Path) -> None:
    """They have no text of their own; duplicates are found by all that is said."""

    def talk(question: str) -> dict[str, Any]:
        return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": "Yes."}]}

    _, records = adopt(tmp_path, [talk("One?"), talk("Two?"), talk("One?")])
    assert records[0]["data"]["messages"] == talk("One?")["messages"]
    assert [record["data"]["text"] for record in records][::2] == ["user: One?\nassistant: Yes."] * 2
    layout = Layout(tmp_path / "results")
    target = layout.fingerprints("mine", "00000")
    assert write_fingerprints(layout.cleaned("mine", "00000"), target) == 3
    assert len({record["data"]["text_sha256"] for record in records}) == 2


def test_records_without_text_are_dropped_and_counted(tmp_path: Path) -> None:
    summary, records = adopt(tmp_path, [{"text": "one"}, {"text": ""}, {"messages": []}])
    assert len(records) == 1
    assert summary["reasons"] == {"empty_text": 2}
    with pytest.raises(ZgcmError, match=r"No record has a text.*sources\.mine\.text_fields"):
        adopt(tmp_path, [{"body": "one"}])


def test_a_cleaned_shard_keeps_its_marks(tmp_path: Path) -> None:
    raw = tmp_path / "raw.jsonl"
    rows = [{"id": f"{n}", "messages": [
        {"role": "user", "content": f"How much is {n} times 3, and why is that so?"},
        {"role": "assistant", "content": f"It is {3 * n}, since three times {n} are {3 * n} in all."},
    ]} for n in range(5)]  # fmt: skip
    raw.write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, before = clean(tmp_path / "first", raw, dataset="origin")
    assert len(before) == 5
    summary, after = clean(
        tmp_path / "second", Layout(tmp_path / "first").cleaned("mine", "00000"), cleaned=True
    )
    assert after == before
    assert summary["kept"] + summary["review"] == 5


def test_a_record_that_changed_since_is_refused(tmp_path: Path) -> None:
    raw = tmp_path / "raw.jsonl"
    raw.write_text(json.dumps({"text": "A sentence that is long enough for every rule."}) + "\n")
    _, (record,) = clean(tmp_path / "first", raw, category="general_text", stage="pretrain")
    adopt(tmp_path, [record])
    changed = {**record, "data": {**record["data"], "text": "Another sentence."}}
    with pytest.raises(
        ZgcmError, match=r"changed after it was cleaned.*record 2 of shard 00000 of sources\.mine"
    ):
        adopt(tmp_path, [record, changed])
    with pytest.raises(ZgcmError, match="a record that no cleaner wrote"):
        adopt(tmp_path, [record, {"text": "raw"}])
