"""Quotas, orders, shards, exclusion and epochs of a mix, on real small indexes."""

import random
import tracemalloc
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from token_workspace import document, make_recipe, sum_conversation, words, write_source

from zgcm.config.corpus import Mix
from zgcm.corpus.candidates import Rows
from zgcm.corpus.dedup import deduplicate
from zgcm.corpus.mix import pick, plan_mix
from zgcm.corpus.placement import contiguous_shards, order_mix, outliers
from zgcm.errors import ZgcmError
from zgcm.identity import recipe_id
from zgcm.io import read_json
from zgcm.layout import Layout
from zgcm.records import read_records
from zgcm.tokens.complexity import lexical_complexity
from zgcm.tokens.facts import read_complexities
from zgcm.tokens.index import index_shard
from zgcm.tokens.indexed import read_lengths
from zgcm.tokens.tokenizer import make_tokenizer

SHARDS = {"web": 2, "books": 1, "code": 1}
CATEGORIES = {"code": "code"}


def rows(source: str, count: int, seed: int = 0) -> list[dict[str, Any]]:
    rng = random.Random(f"{source} {seed}")
    return [
        document(f"{source} {i} " + words(rng, rng.randint(3, 40)), f"{source}-{i}") for i in range(count)
    ]


@pytest.fixture(scope="module")
def layout(tmp_path_factory) -> Layout:
    layout = Layout(tmp_path_factory.mktemp("mixes"))
    recipe = make_recipe(SHARDS, categories=CATEGORIES)
    web = rows("web", 60)
    write_source(layout, "web", [web[:35], web[35:]])
    write_source(layout, "books", [rows("books", 30)])
    write_source(layout, "code", [rows("code", 30)])
    make_tokenizer(recipe, layout)
    for source, shards in SHARDS.items():
        for shard in range(shards):
            index_shard(recipe, layout, source, f"{shard:05d}")
    return layout


def shares(*parts: tuple[int, float]) -> list[dict[str, Any]]:
    return [{"up_to": up_to, "share": share} for up_to, share in parts]


def planned(layout: Layout, mixes: dict[str, Any]) -> tuple[dict[str, Any], list[list[tuple[str, str, int]]]]:
    """Dedup and plan each mix; returns the last plan and its selections."""
    recipe = make_recipe(SHARDS, mixes, categories=CATEGORIES)
    for mix in mixes:
        deduplicate(recipe, layout, mix)
        plan = plan_mix(recipe, layout, mix)
    assert read_json(layout.plan(mix)) == plan
    shards = [f"{number:05d}" for number in range(mixes[mix].get("shards", 1))]
    tables = [pq.read_table(layout.selection(mix, shard)).to_pylist() for shard in shards]
    return plan, [[(r["source"], r["shard"], r["row"]) for r in table] for table in tables]


def test_results_state_their_recipe(layout: Layout) -> None:
    mixes = {"stated": {"kind": "documents", "sources": {"web": 1.0}, "tokens": 500}}
    recipe = make_recipe(SHARDS, mixes, categories=CATEGORIES)
    plan, _ = planned(layout, mixes)
    assert plan["recipe_id"] == recipe_id(recipe, "mix", "stated")
    assert read_json(layout.tokenizer / "manifest.json")["recipe_id"] == recipe_id(recipe, "tokenizer")
    report = read_json(layout.index_report("web", "00000"))
    assert report["recipe_id"] == recipe_id(recipe, "index", "web")


def tokens_of(layout: Layout, selection: list[tuple[str, str, int]]) -> list[int]:
    return [int(read_lengths(layout.index_prefix(s, shard))[row]) for s, shard, row in selection]


def test_each_source_gives_its_quota_and_less_than_one_document_more(layout):
    plan, (selection,) = planned(
        layout, {"m": {"sources": {"web": 0.5, "books": 0.3, "code": 0.2}, "tokens": 1501}}
    )
    assert {name: facts["quota_tokens"] for name, facts in plan["sources"].items()} == {
        "web": 751,
        "books": 450,
        "code": 300,
    }
    for source, facts in plan["sources"].items():
        mine = tokens_of(layout, [item for item in selection if item[0] == source])
        assert facts["tokens"] == sum(mine) >= facts["quota_tokens"] > sum(mine) - max(mine)
        assert facts["documents"] == len(mine)
    assert plan["tokens"] == sum(tokens_of(layout, selection))
    assert len(set(selection)) == len(selection)


def test_every_lacking_source_is_named_with_how_much(layout):
    mix = {"sources": {"web": 0.02, "books": 0.49, "code": 0.49}, "tokens": 100_000}
    recipe = make_recipe(SHARDS, {"lack": mix})
    deduplicate(recipe, layout, "lack")
    have = int(read_lengths(layout.index_prefix("books", "00000")).sum())
    with pytest.raises(ZgcmError) as caught:
        plan_mix(recipe, layout, "lack")
    assert f"books lacks {49_000 - have:,} of 49,000 tokens" in caught.value.found
    assert "code lacks" in caught.value.found and "web" not in caught.value.found
    assert not layout.plan("lack").exists() and not layout.selection("lack", "00000").exists()


def test_epochs_repeat_a_small_source_evenly(layout):
    have = int(read_lengths(layout.index_prefix("books", "00000")).sum())
    mix = {"sources": {"books": 1}, "tokens": int(have * 2.5), "max_epochs": 3}
    plan, (selection,) = planned(layout, {"again": mix})
    counts = [selection.count(item) for item in set(selection)]
    assert len(counts) == 30 and set(counts) == {2, 3}
    assert plan["sources"]["books"]["epochs"] == 3
    kept = pq.read_table(layout.kept("again"))["exact"].to_pylist()
    assert len(kept) == 30 and kept == sorted(kept)


def test_later_mixes_use_other_documents(layout):
    share = {"sources": {"web": 1, "code": 1}, "tokens": 900}
    _, (first,) = planned(layout, {"one": share})
    plan, (second,) = planned(layout, {"one": share, "two": {**share, "exclude": ["one"]}})
    assert not set(first) & set(second)
    removed = sum(facts["removed"]["in_mix:one"] for facts in plan["sources"].values())
    assert removed == len(first)


def test_everything_once_without_a_quota(layout):
    plan, shards = planned(layout, {"all": {"sources": {"web": 1, "books": 3}, "shards": 3}})
    everything = [item for shard in shards for item in shard]
    assert len(everything) == len(set(everything)) == plan["documents"] == 90


def test_shuffled_depends_on_seed_and_text_but_not_on_where_a_text_lies(layout, tmp_path):
    mix = {"sources": {"web": 1}, "tokens": 800, "shards": 2, "seed": 7}
    _, shards = planned(layout, {"m": mix})

    def texts(where: Layout, selection):
        data = {s: list(read_records(where.cleaned("web", s))) for s in ("00000", "00001")}
        return [data[shard][row]["data"]["text"] for _, shard, row in selection]

    _, reseeded = planned(layout, {"m": {**mix, "seed": 8}})
    assert texts(layout, shards[0]) != texts(layout, reseeded[0])
    other = Layout(tmp_path)
    web = rows("web", 60)[::-1]
    write_source(other, "web", [web[:10], web[10:]])
    write_source(other, "books", [rows("books", 30)])
    write_source(other, "code", [rows("code", 30)])
    recipe = make_recipe(SHARDS)
    make_tokenizer(recipe, other)
    for file in ("tokenizer.json", "manifest.json"):
        (other.tokenizer / file).write_bytes((layout.tokenizer / file).read_bytes())
    for source, count in SHARDS.items():
        for shard in range(count):
            index_shard(recipe, other, source, f"{shard:05d}")
    _, resharded = planned(other, {"m": mix})
    assert [texts(layout, s) for s in shards] == [texts(other, s) for s in resharded]


def test_curriculum_runs_from_simple_to_complex_with_code_spread_evenly(layout):
    sources = {"web": 1, "books": 1, "code": 1}
    _, shards = planned(
        layout, {"c": {"sources": sources, "tokens": 2400, "order": "curriculum", "shards": 3}}
    )
    sequence = [item for shard in shards for item in shard]
    complexity = [
        float(read_complexities(layout.index_facts(source, shard))[row])
        for source, shard, row in sequence
        if source != "code"
    ]
    assert complexity == sorted(complexity) and len(set(complexity)) > 10
    tokens = np.array(tokens_of(layout, sequence))
    is_code = np.array([source == "code" for source, _, _ in sequence])
    consumed = np.cumsum(tokens * is_code) / (tokens * is_code).sum()
    everything = np.cumsum(tokens) / tokens.sum()
    assert np.abs(consumed - everything).max() < 2 * tokens.max() / (tokens * is_code).sum()
    sizes = [sum(tokens_of(layout, shard)) for shard in shards]
    assert max(sizes) - min(sizes) <= 2 * tokens.max()


def test_curriculum_leaves_extreme_outliers_out(layout, tmp_path):
    odd = [document("incomprehensibilities" * 9, "long"), document("1 2 3", "none")]
    other = Layout(tmp_path)
    write_source(other, "web", [rows("web", 40) + odd, []])
    recipe = make_recipe({"web": 2}, {"c": {"sources": {"web": 1}, "order": "curriculum"}})
    make_tokenizer(recipe, other)
    for shard in ("00000", "00001"):
        index_shard(recipe, other, "web", shard)
    deduplicate(recipe, other, "c")
    plan = plan_mix(recipe, other, "c")
    assert plan["sources"]["web"]["removed"] == {"complexity_outlier": 2}
    assert plan["documents"] == 40
    assert lexical_complexity(odd[0]["data"]["text"]) > 20


def test_a_curriculum_keeps_texts_of_another_script(tmp_path):
    """Beside English ones that are much alike; one that repeats a character goes."""
    rng = random.Random(0)
    words = ["".join(rng.choices("aeioustrnldm", k=rng.randint(3, 6))) for _ in range(900)]
    english = [" ".join(rng.choices(words, k=80)) for _ in range(60)]
    characters = [chr(0x4E00 + 7 * number) for number in range(400)]
    chinese = ["".join(rng.choices(characters, k=200)) for _ in range(15)]
    layout = Layout(tmp_path)
    texts = [*english, *chinese, "哈" * 300]
    write_source(layout, "web", [[document(text, str(row)) for row, text in enumerate(texts)]])
    recipe = make_recipe({"web": 1}, {"c": {"sources": {"web": 1}, "order": "curriculum"}})
    make_tokenizer(recipe, layout)
    index_shard(recipe, layout, "web", "00000")
    deduplicate(recipe, layout, "c")
    assert plan_mix(recipe, layout, "c")["sources"]["web"]["removed"] == {"complexity_outlier": 1}


def test_a_curriculum_spreads_conversations_evenly(tmp_path):
    """They have no complexity; as documents without words they would all be outliers."""
    layout = Layout(tmp_path)
    write_source(layout, "web", [rows("web", 40)])
    write_source(layout, "talks", [[sum_conversation(a, a + 1) for a in range(10, 30)]])
    recipe = make_recipe(
        {"web": 1, "talks": 1},
        {"c": {"sources": {"web": 1, "talks": 1}, "order": "curriculum"}},
        categories={"talks": "instruction"},
    )
    make_tokenizer(recipe, layout)
    for source in ("web", "talks"):
        index_shard(recipe, layout, source, "00000")
    deduplicate(recipe, layout, "c")
    plan = plan_mix(recipe, layout, "c")
    assert (plan["sources"]["talks"]["documents"], plan["sources"]["talks"]["removed"]) == (20, {})
    sequence = pq.read_table(layout.selection("c", "00000")).to_pylist()
    assert sum(item["source"] == "talks" for item in sequence[:30]) in range(5, 16)


def test_listed_order_is_source_shard_row(layout):
    mix = {"sources": {"code": 1, "web": 1}, "tokens": 1200, "order": "listed", "shards": 2}
    _, shards = planned(layout, {"l": mix})
    sequence = [item for shard in shards for item in shard]
    assert sequence == sorted(sequence, key=lambda item: (item[0] != "code", item[1], item[2]))
    assert sequence[0] == ("code", "00000", 0)


def test_document_lengths_are_limited_and_counted(layout):
    mix = {"sources": {"web": 1}, "min_document_tokens": 20, "max_document_tokens": 60}
    plan, (selection,) = planned(layout, {"some": mix})
    assert min(tokens_of(layout, selection)) >= 20 and max(tokens_of(layout, selection)) <= 60
    removed = plan["sources"]["web"]["removed"]
    assert removed["min_document_tokens"] + removed["max_document_tokens"] + len(selection) == 60


def test_quotas_by_length_are_met_in_every_source(layout):
    mix = {"sources": {"web": 1, "code": 1}, "tokens": 400, "length_shares": shares((20, 0.25), (60, 0.75))}
    plan, (selection,) = planned(layout, {"a": mix})
    for source in ("web", "code"):
        mine = [(shard, row) for name, shard, row in selection if name == source]
        lengths = [read_lengths(layout.index_prefix(source, shard))[row] for shard, row in mine]
        short, long = (sum(n for n in lengths if low < n <= high) for low, high in ((0, 20), (20, 60)))
        assert plan["sources"][source]["tokens_by_length"] == {"20": short, "60": long}
        assert 50 <= short < 70 and 150 <= long < 210
    with pytest.raises(ZgcmError, match="web up to length 5 lacks"):
        planned(
            layout,
            {"a": {"sources": {"web": 1}, "tokens": 400, "length_shares": shares((5, 1.0), (60, 1.0))}},
        )


@pytest.mark.parametrize(
    "more", [{}, {"tokens": 9, "order": "listed"}, {"tokens": 9, "length_shares": shares((8, 1.0), (8, 1.0))}]
)
def test_shares_of_lengths_need_a_quota_a_free_order_and_ascending_bounds(more):
    with pytest.raises(ValueError, match="length_shares"):
        Mix.model_validate({"sources": {"web": 1.0}, "length_shares": shares((8, 1.0)), **more})


def test_an_empty_output_shard_is_refused(layout):
    with pytest.raises(ZgcmError, match=r"would hold no document.*use fewer shards"):
        planned(layout, {"m": {"sources": {"web": 1}, "tokens": 10, "shards": 40}})


def test_an_index_of_another_tokenizer_is_refused(layout, tmp_path):
    import shutil

    shutil.copytree(layout.root, tmp_path / "copy")
    copy = Layout(tmp_path / "copy")
    make_tokenizer(make_recipe(SHARDS, vocab_size=380), copy)
    with pytest.raises(ZgcmError, match=r"tokenized with another tokenizer.*zgcm index web 00000"):
        planned(copy, {"m": {"sources": {"web": 1}}})


def test_rows_left_out_that_do_not_exist_are_an_error(layout, tmp_path):
    import shutil

    shutil.copytree(layout.root, tmp_path / "copy")
    copy = Layout(tmp_path / "copy")
    recipe = make_recipe(SHARDS, {"m": {"sources": {"web": 1}}}, categories=CATEGORIES)
    deduplicate(recipe, copy, "m")
    path = copy.duplicates("m")
    row = {"source": "web", "shard": "00000", "row": 10**6, "reason": "exact_duplicate"}
    pq.write_table(pa.Table.from_pylist([row], pq.read_schema(path)), path)
    with pytest.raises(ZgcmError, match=r"rows out that do not exist.*duplicates\.parquet.*zgcm dedup m"):
        plan_mix(recipe, copy, "m")


def test_the_order_of_sources_is_identity():
    ab, ba = ({"m": {"sources": sources}} for sources in ({"web": 1, "books": 1}, {"books": 1, "web": 1}))
    ids = {recipe_id(make_recipe(SHARDS, mixes), "mix", "m") for mixes in (ab, ba, ab)}
    assert len(ids) == 2


def test_same_bytes_again(layout):
    mix = {"m": {"sources": {"web": 1, "code": 1}, "tokens": 700, "shards": 2}}
    first, _ = planned(layout, mix)
    second, _ = planned(layout, mix)
    assert first == second  # holds the digests of every selection and of kept.fingerprints


def test_planning_holds_arrays_and_no_object_for_each_row():
    """A stage of billions of documents is planned on one machine."""
    count = 200_000
    rows = Rows(
        source=np.zeros(count, np.int16),
        shard=np.zeros(count, np.int32),
        row=np.arange(count, dtype=np.int32),
        tokens=np.ones(count, np.int64),
        exact=np.random.default_rng(0).integers(0, 255, (count, 16), dtype=np.uint8),
        complexity=np.zeros(count, np.float32),
        epoch=np.zeros(count, np.int16),
    )
    section = Mix(sources={"a": 1}, shards=8)
    tracemalloc.start()
    order_mix(pick(rows, count, section, "x"), section, "x", np.array([True]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak / count < 160  # 274 with a string for each id


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 8))
def test_contiguous_shards_ascend_and_are_balanced(tokens, shards):
    numbers = contiguous_shards(np.array(tokens), shards)
    assert (np.diff(numbers) >= 0).all() and numbers.min() >= 0 and numbers.max() < shards
    share = sum(tokens) / shards
    for number in range(shards):
        assert abs(sum(np.array(tokens)[numbers == number]) - share) <= max(tokens)


def test_outliers_are_beyond_the_outer_fences():
    values = np.array([1, 2, 3, 4, 5, 100, -100, np.nan], np.float32)
    assert outliers(values).tolist() == [False] * 5 + [True] * 3
    assert outliers(np.array([np.nan], np.float32)).tolist() == [True]
    assert not len(outliers(np.array([], np.float32)))
