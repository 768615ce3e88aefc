"""Survivors against a brute-force reading of the rule, whatever the shards."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from token_workspace import document, make_recipe, write_source

from zgcm.corpus import dedup
from zgcm.corpus.dedup import deduplicate
from zgcm.errors import ZgcmError
from zgcm.layout import Layout, shard_name

SOURCES = ["first", "second"]

rows = st.lists(
    st.tuples(
        st.sampled_from(SOURCES),
        st.sampled_from(["alpha", "beta", "gamma", "Alpha", "BETA"]),  # equal when case-folded
        st.sampled_from([None, 0.5, 1.0]),
        st.sampled_from(["keep", "keep", "review"]),
    ),
    max_size=24,
)


def build(root: Path, items, spread: int, include: list[str], kept: list[bytes] = ()) -> tuple:
    """Rows of each source dealt over `spread` shards; ids say where a row comes from."""
    layout = Layout(root)
    mixes = {"early": {"sources": {"first": 1}}, "mix": {"sources": {"first": 1, "second": 1}}}
    if kept:
        mixes["mix"]["exclude"] = ["early"]
        layout.mix("early").mkdir(parents=True)
        pq.write_table(pa.table({"exact": pa.array(kept, pa.binary(16))}), layout.kept("early"))
    recipe = make_recipe(dict.fromkeys(SOURCES, spread), mixes, include=dict.fromkeys(SOURCES, include))
    for source in SOURCES:
        mine = [
            document(
                text,
                f"{number:03d}",
                decision=decision,
                metrics={"quality_score": quality} if quality else {},
            )
            for number, (of, text, quality, decision) in enumerate(items)
            if of == source
        ]
        write_source(layout, source, [mine[shard::spread] for shard in range(spread)])
    return recipe, layout


def removed(layout: Layout, spread: int) -> dict[tuple[str, str], tuple[str, tuple[str, str] | None]]:
    """(source, source_id) -> reason and the survivor, with rows resolved to ids."""
    ids = {
        (source, shard_name(shard), row): name
        for source in SOURCES
        for shard in range(spread)
        for row, name in enumerate(
            pq.read_table(layout.fingerprints(source, shard_name(shard)))["source_id"].to_pylist()
        )
    }
    found = {}
    for item in pq.read_table(layout.duplicates("mix")).to_pylist():
        of = (item["of_source"], item["of_shard"], item["of_row"])
        survivor = (of[0], ids[of]) if of[0] is not None else None
        found[item["source"], ids[item["source"], item["shard"], item["row"]]] = (item["reason"], survivor)
    return found


def expected(items, include) -> dict:
    """The rule, read aloud."""
    out, groups = {}, {}
    for number, (source, text, quality, decision) in enumerate(items):
        name = (source, f"{number:03d}")
        if decision not in include:
            out[name] = (f"decision:{decision}", None)
        else:
            # Texts here have lengths that only depend on the folded text, so `chars` never decides.
            priority = (SOURCES.index(source), -(quality if quality is not None else -1), name[1])
            groups.setdefault(text.casefold(), []).append((priority, name))
    for group in groups.values():
        (_, survivor), *others = sorted(group)
        out.update({name: ("exact_duplicate", survivor) for _, name in others})
    return out


@settings(max_examples=25)
@given(items=rows, include=st.sampled_from([["keep"], ["keep", "review"]]), spread=st.integers(1, 3))
def test_survivors_follow_the_rule_and_not_the_shards(items, include, spread):
    with TemporaryDirectory() as name:
        recipe, layout = build(Path(name), items, spread, include)
        counts = deduplicate(recipe, layout, "mix")
        found = removed(layout, spread)
        assert found == expected(items, include)
        assert sum(counts.values()) == len(found)


def test_longer_text_wins_after_quality(tmp_path):
    layout = Layout(tmp_path)
    recipe = make_recipe({"first": 1}, {"mix": {"sources": {"first": 1}}})
    write_source(layout, "first", [[document("same", "1"), document("same", "0")]])
    path = layout.fingerprints("first", "00000")
    table = pq.read_table(path)
    longer = table.set_column(3, "chars", pa.array([9, 4], pa.int32()))
    pq.write_table(longer, path)
    deduplicate(recipe, layout, "mix")
    assert pq.read_table(layout.duplicates("mix"))["row"].to_pylist() == [1]


def test_excluded_mixes_take_their_texts_and_duplicates_of_those(tmp_path):
    items = [
        ("first", "alpha", None, "keep"),
        ("second", "alpha", 1.0, "keep"),
        ("second", "beta", None, "keep"),
    ]
    recipe, layout = build(tmp_path / "a", items, 1, ["keep"])
    kept = pq.read_table(layout.fingerprints("first", "00000"))["exact"].to_pylist()
    recipe, layout = build(tmp_path / "b", items, 1, ["keep"], kept)
    assert deduplicate(recipe, layout, "mix") == {"in_mix:early": 2}
    assert removed(layout, 1) == {
        ("first", "000"): ("in_mix:early", None),
        ("second", "001"): ("in_mix:early", None),
    }


def test_sources_of_weight_zero_take_no_part(tmp_path):
    items = [("first", "alpha", None, "keep"), ("second", "alpha", None, "keep")]
    _, layout = build(tmp_path, items, 1, ["keep"])
    recipe = make_recipe(dict.fromkeys(SOURCES, 1), {"mix": {"sources": {"first": 0, "second": 1}}})
    assert deduplicate(recipe, layout, "mix") == {}


def test_same_bytes_again_and_nothing_left_beside(tmp_path):
    items = [("first", "alpha", None, "keep")] * 3
    recipe, layout = build(tmp_path, items, 2, ["keep"])
    deduplicate(recipe, layout, "mix")
    before = layout.duplicates("mix").read_bytes()
    deduplicate(recipe, layout, "mix")
    assert layout.duplicates("mix").read_bytes() == before
    assert [path.name for path in layout.mix("mix").iterdir()] == ["duplicates.parquet"]


def test_too_little_memory_and_disk_is_a_clear_error(tmp_path, monkeypatch):
    recipe, layout = build(tmp_path, [("first", "alpha", None, "keep")], 1, ["keep"])
    monkeypatch.setattr(dedup, "_TABLES", "CREATE TABLE big AS SELECT hash(range) AS a FROM range(100000000)")
    monkeypatch.setattr(dedup, "MEMORY_SHARE", 0.05)
    connect = dedup.duckdb.connect
    monkeypatch.setattr(
        dedup.duckdb, "connect",
        lambda config: connect(config={**config, "max_temp_directory_size": "1MB"}),
    )  # fmt: skip
    with pytest.raises(ZgcmError, match=r"out of memory or disk.*mix.*step_resources\.mix\.mem_mb"):
        deduplicate(recipe, layout, "mix")
    assert list(layout.mix("mix").iterdir()) == []


def test_the_pairs_of_hot_buckets_become_distinct_within_the_least_memory(tmp_path):
    """Few different first documents: duckdb would pack such columns and then overshoot its limit."""
    with dedup._database(tmp_path, 1, dedup.LEAST_MB) as database:
        database.execute(
            "CREATE TABLE pairs AS SELECT range % 4 AS first, range // 4 AS second FROM range(8000000)"
        )
        database.execute("CREATE TABLE candidates AS SELECT DISTINCT first, second FROM pairs")
        assert database.sql("SELECT count(*) FROM candidates").fetchall() == [(8_000_000,)]


def test_missing_fingerprints_are_named(tmp_path):
    recipe, layout = build(tmp_path, [], 1, ["keep"])
    layout.fingerprints("second", "00000").unlink()
    with pytest.raises(ZgcmError, match=r"compares is missing.*second.00000\.fingerprints.*zgcm fingerprint"):
        deduplicate(recipe, layout, "mix")
    assert not layout.duplicates("mix").exists()
