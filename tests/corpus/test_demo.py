"""Demo sources: enough documents, none twice, the same whatever the order in which the disk lists files."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import recipe_with

from zgcm.corpus import demo
from zgcm.corpus.demo import build_shard, documentation, library_files, split_text
from zgcm.corpus.raw import make_raw
from zgcm.errors import ZgcmError
from zgcm.layout import Layout
from zgcm.records import read_records


def raw(content, documents=20, shards=2, **more):
    return {
        "kind": "demo", "content": content, "stage": "pretrain", "category": "general_text",
        "documents": documents, "shards": shards, **more,
    }  # fmt: skip


def source(content, documents=20, shards=2, **more):
    """A demo section; the generator does not look at stage and category."""
    return recipe_with(raw(content, documents, shards, **more)).sources["mine"]


def strip_nulls(value):
    """Without keys that are null: a parquet column has one in each row that lacks the key."""
    if isinstance(value, dict):
        return {key: strip_nulls(item) for key, item in value.items() if item is not None}
    return [strip_nulls(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "content", ["code", "prose", "arithmetic", "conversations", "traces", "programs", "instructions"]
)
def test_shards_have_their_share_and_share_nothing(content):
    section = source(content, documents=21)
    first, second = (list(build_shard(section, "mine", shard)) for shard in (0, 1))
    assert (len(first), len(second)) == (11, 10)
    ids = [record["id"] for record in first + second]
    assert len(set(ids)) == 21
    assert list(build_shard(section, "mine", 0)) == first
    assert list(build_shard(source(content, documents=21, seed=1), "mine", 0)) != first


def test_code_and_prose_look_right():
    for record in build_shard(source("code"), "mine", 0):
        assert 200 <= len(record["content"]) <= demo.CODE_CHARS
        assert record["path"].startswith("Lib/")
    longest = max(len(record["text"]) for record in build_shard(source("prose"), "mine", 0))
    assert 2000 <= longest <= demo.PROSE_CHARS
    names = [name for name, _ in library_files()]
    assert names == sorted(names)
    assert "json/decoder.py" in names
    assert not [name for name in names if "site-packages" in name or name.startswith("test/")]


def test_the_order_in_which_the_disk_lists_files_is_nothing(monkeypatch):
    section = source("code")
    expected = list(build_shard(section, "mine", 1))
    walk = os.walk

    def backwards(root):
        for directory, below, names in walk(root):
            names.reverse()
            below.reverse()
            yield directory, below, names

    monkeypatch.setattr(demo.os, "walk", backwards)
    assert list(build_shard(section, "mine", 1)) == expected


def test_too_many_documents_and_too_few():
    with pytest.raises(ZgcmError, match="library is too small") as caught:
        list(build_shard(source("code", documents=10**5), "mine", 0))
    assert caught.value.where == "sources.mine.documents"
    with pytest.raises(ZgcmError, match="would be empty"):
        build_shard(source("code", documents=1), "mine", 1)


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "parquet"])
def test_every_format_holds_the_same_records(ending, tmp_path):
    whole = recipe_with(raw("traces"))
    expected = [strip_nulls(r) for r in read_records(make_raw(whole, Layout(tmp_path), "mine", "00000"))]
    other = recipe_with(raw("traces", format=ending))
    path = make_raw(other, Layout(tmp_path), "mine", "00000")
    assert path.name == f"00000.{ending}"
    assert [strip_nulls(record) for record in read_records(path)] == expected
    first = path.read_bytes()
    make_raw(other, Layout(tmp_path), "mine", "00000")
    assert path.read_bytes() == first


@pytest.mark.parametrize("content, key, value", [
    ("code", "max_digit", 8), ("arithmetic", "careless_share", 0.6), ("conversations", "document_chars", 100),
    ("conversations", "careless_share", 1.5), ("prose", "document_chars", 0), ("arithmetic", "max_digit", 10),
])  # fmt: skip
def test_a_key_of_another_content_or_out_of_range_is_refused_with_the_recipe(content, key, value):
    with pytest.raises(ZgcmError, match=f"sources.mine.*{key}"):
        source(content, **{key: value})


@given(st.text(alphabet="ab \n\u2028é", max_size=400), st.integers(1, 50))
def test_split_text_loses_nothing_and_keeps_the_limit(text, limit):
    pieces = list(split_text(text, limit))
    assert "".join(pieces) == text
    assert all(0 < len(piece) <= limit for piece in pieces)


def test_split_text_prefers_a_definition():
    body = "def f():\n    a = 1\n\n    return a\n\ndef g():\n    return 2\n"
    assert list(split_text(body, 40))[1].startswith("def g")


def test_documentation_is_in_order_and_dedented():
    module = b'"""One."""\nclass A:\n    """Two.\n\n    More.\n    """\n    def f(self):\n        "Three."\n'
    assert documentation(module) == "One.\n\nTwo.\n\nMore.\n\nThree."
