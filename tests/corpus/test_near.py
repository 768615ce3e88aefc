"""Near-duplicates: hit curve, recall, precision, clusters, forward only, and the same whatever the shards."""

import itertools
import random
from pathlib import Path

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from token_workspace import document, make_recipe, words, write_source

from zgcm.config.corpus import NearDuplicates
from zgcm.corpus import minhash, near
from zgcm.corpus.dedup import deduplicate
from zgcm.corpus.fingerprint import write_fingerprints
from zgcm.corpus.minhash import band_hashes, parse_scheme, write_minhash
from zgcm.corpus.near import insert, join_clusters
from zgcm.corpus.shingles import jaccard, shingles
from zgcm.errors import ZgcmError
from zgcm.layout import Layout, shard_name
from zgcm.records import read_records
from zgcm.tokens.columns import names, numbers, write_columns

SCHEME = NearDuplicates()


# --- the hashes ---------------------------------------------------------------------------------------------


def overlapping_pairs(rng: np.random.Generator, union: int, shared: int, pairs: int) -> list[np.ndarray]:
    """2 x pairs sets of random hashes; each pair shares `shared` of `union`."""
    sets = []
    for _ in range(pairs):
        pool = rng.integers(0, 2**64, union, np.uint64)
        middle = shared + (union - shared) // 2
        sets += [pool[:middle], np.concatenate([pool[:shared], pool[middle:]])]
    return sets


@pytest.mark.parametrize("union", [60, 400])
def test_the_hit_curve_is_the_formula(union):
    rng = np.random.default_rng(1)
    for similarity in (0.5, 0.65, 0.75, 0.85):
        sets = overlapping_pairs(rng, union, round(union * similarity), 4000)
        bands = band_hashes(sets, SCHEME).reshape(-1, 2, SCHEME.bands)
        hits = (bands[:, 0] == bands[:, 1]).any(axis=1).mean()
        assert abs(hits - (1 - (1 - (round(union * similarity) / union) ** 8) ** 14)) < 0.03


def test_equal_sets_share_every_band_and_others_none():
    rng = np.random.default_rng(2)
    first, second = (rng.integers(0, 2**64, 50, np.uint64) for _ in range(2))
    bands = band_hashes([first, first[::-1].copy(), second], SCHEME)
    assert (bands[0] == bands[1]).all() and not (bands[0] == bands[2]).any()
    assert len(np.unique(bands[:2])) == SCHEME.bands


def test_band_hashes_never_change():
    """They lie in files that outlive an upgrade: another value means raising VERSIONS["minhash"]."""
    text = "the quick brown fox jumps over the lazy dog and runs away"
    bands = band_hashes([shingles(text, 5)], SCHEME)[0]
    assert [hex(value) for value in bands[:2].tolist()] == GOLDEN


GOLDEN = ["0x6c9b8565870382de", "0xb22e90d35c84a08"]


def test_schemes():
    assert parse_scheme("14x8x5").scheme == "14x8x5"
    for wrong in ("14x8", "0x8x5", "axbxc"):
        with pytest.raises(ZgcmError, match="Not a scheme"):
            parse_scheme(wrong)


def test_batches_do_not_show(tmp_path, monkeypatch):
    write_source(Layout(tmp_path), "web", [planted(4, 20)])
    cleaned = Layout(tmp_path).cleaned("web", "00000")
    write_minhash(cleaned, tmp_path / "whole", SCHEME)
    monkeypatch.setattr(minhash, "BATCH_SHINGLES", 300)
    monkeypatch.setattr(minhash, "BATCHES_A_GROUP", 2)
    write_minhash(cleaned, tmp_path / "parts", SCHEME)
    assert pq.read_metadata(tmp_path / "parts").num_row_groups > 5
    assert pq.read_table(tmp_path / "parts") == pq.read_table(tmp_path / "whole")


def test_nothing_alike_is_nothing_removed(tmp_path):
    rows = [document(words(random.Random(i), 50), str(i)) for i in range(5)]
    layout = prepare(tmp_path, {"web": rows}, 1)
    assert deduplicate(recipe_of({"web": 1}), layout, "m") == {}


def test_texts_without_words_have_no_bands(tmp_path):
    layout = Layout(tmp_path)
    write_source(layout, "web", [[document("?!", "0"), document("some words", "1"), document("", "2")]])
    write_minhash(layout.cleaned("web", "00000"), tmp_path / "x", SCHEME)
    table = pq.read_table(tmp_path / "x")
    table.validate(full=True)
    assert [value is None for value in table["band_13"].to_pylist()] == [True, False, True]


# --- clusters -----------------------------------------------------------------------------------------------


def clusters(edges: list[tuple[int, int]]) -> dict[int, int]:
    with duckdb.connect() as database:
        database.execute("CREATE TABLE edges (first BIGINT, second BIGINT)")
        first, second = np.array(edges, np.int64).reshape(-1, 2).T
        insert(database, "edges", first=first, second=second)
        join_clusters(database)
        return dict(database.sql("FROM labels").fetchall())


def union_find(edges: list[tuple[int, int]]) -> dict[int, int]:
    parent = {node: node for edge in edges for node in edge}

    def root(node: int) -> int:
        return node if parent[node] == node else root(parent[node])

    for a, b in edges:
        low, high = sorted((root(a), root(b)))
        parent[high] = low
    return {node: root(node) for node in parent}


@settings(max_examples=10)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=40))
def test_clusters_are_connected_components(edges):
    edges = [(min(a, b), max(a, b)) for a, b in edges if a != b]
    assert clusters(edges) == union_find(edges)


def test_a_long_chain_is_one_cluster():
    order = list(range(500))
    random.Random(3).shuffle(order)
    assert set(clusters(list(itertools.pairwise(order))).values()) == {0}


# --- a corpus with planted near-duplicates ------------------------------------------------------------------


def planted(seed: int, bases: int = 120) -> list[dict]:
    """Texts, most with a few versions of which 1 to 8 words were replaced, with ids in random order."""
    rng = random.Random(seed)
    texts = []
    for _ in range(bases):
        base = words(rng, rng.randint(40, 160)).split(" ")
        texts.append(" ".join(base))
        for _ in range(rng.choice([0, 1, 1, 2, 3])):
            version = list(base)
            for _ in range(rng.choice([1, 1, 1, 2, 4, 8])):
                version[rng.randrange(len(version))] = words(rng, 1)
            texts.append(" ".join(version))
    rng.shuffle(texts)
    return [
        document(text, f"{i:05d}", metrics={"quality_score": rng.choice([0.5, 1.0])} if i % 3 else {})
        for i, text in enumerate(texts)
    ]


def prepare(
    root: Path, rows: dict[str, list[dict]], spread: int, order: random.Random | None = None
) -> Layout:
    """Shards, fingerprints and bands; `order` shuffles the order in which the shards are made."""
    layout = Layout(root)
    for source, mine in rows.items():
        write_source(layout, source, [mine[shard::spread] for shard in range(spread)])
    jobs = [(source, shard_name(shard)) for source in rows for shard in range(spread)]
    if order:
        order.shuffle(jobs)
    for job in jobs:
        write_fingerprints(layout.cleaned(*job), layout.fingerprints(*job))
        write_minhash(layout.cleaned(*job), layout.minhash(*job, "14x8x5"), SCHEME)
    return layout


def removed_ids(layout: Layout, mix: str = "m") -> dict[tuple[str, str], tuple]:
    """(source, id) -> reason, survivor's id, similarity."""
    ids: dict[tuple[str, str], list[str]] = {}

    def id_of(source: str | None, shard: str, row: int) -> str | None:
        if source is None:
            return None
        if (source, shard) not in ids:
            ids[source, shard] = [r["source_id"] for r in read_records(layout.cleaned(source, shard))]
        return ids[source, shard][row]

    return {
        (item["source"], id_of(item["source"], item["shard"], item["row"])): (
            item["reason"],
            id_of(item["of_source"], item["of_shard"], item["of_row"]),
            item["similarity"],
        )
        for item in pq.read_table(layout.duplicates(mix)).to_pylist()
    }


def recipe_of(sources: dict[str, int], *, threads: int = 1, **mixes):
    found = {"m": {"sources": dict.fromkeys(sources, 1), "near_duplicates": {}, "threads": threads}, **mixes}
    return make_recipe(sources, found)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> tuple[Layout, list[dict], dict]:
    rows = planted(7)
    layout = prepare(tmp_path_factory.mktemp("near"), {"web": rows}, 1)
    deduplicate(recipe_of({"web": 1}), layout, "m")
    return layout, rows, removed_ids(layout)


def test_recall_and_precision_against_all_pairs(corpus):
    _, rows, removed = corpus
    sets = [shingles(row["data"]["text"], 5) for row in rows]
    similarity = {(a, b): jaccard(sets[a], sets[b]) for a, b in itertools.combinations(range(len(rows)), 2)}
    of = {row["source_id"]: i for i, row in enumerate(rows)}
    cluster = {i: i for i in range(len(rows))}
    for (_, name), (_, survivor, _) in removed.items():
        cluster[of[name]] = of[survivor]
    alike = [pair for pair, value in similarity.items() if value >= 0.85]
    found = sum(cluster[a] == cluster[b] for a, b in alike)
    assert len(alike) > 40 and found / len(alike) >= 0.95
    for (_, name), (reason, _, value) in removed.items():
        best = max(
            similarity[tuple(sorted((of[name], other)))] for other in range(len(rows)) if other != of[name]
        )
        assert reason == "near_duplicate" and 0.8 <= value <= best + 1e-6


def test_the_survivor_is_the_first_by_priority(corpus):
    _, rows, removed = corpus
    by_id = {row["source_id"]: row for row in rows}

    def priority(name: str) -> tuple:
        row = by_id[name]
        return (-row["metrics"].get("quality_score", -1), -len(row["data"]["text"]), name)

    for (_, name), (_, survivor, _) in removed.items():
        assert priority(survivor) < priority(name)
        assert ("web", survivor) not in removed


@pytest.mark.parametrize(("spread", "threads"), [(4, 1), (4, 2), (1, 2)])
def test_shards_threads_and_the_order_of_jobs_do_not_matter(corpus, tmp_path, spread, threads):
    _, rows, removed = corpus
    layout = prepare(tmp_path, {"web": rows}, spread, random.Random(spread))
    deduplicate(recipe_of({"web": spread}, threads=threads), layout, "m")
    assert removed_ids(layout) == removed
    before = layout.duplicates("m").read_bytes()
    deduplicate(recipe_of({"web": spread}, threads=3 - threads), layout, "m")
    assert layout.duplicates("m").read_bytes() == before
    assert [path.name for path in layout.mix("m").iterdir()] == ["duplicates.parquet"]


def test_a_hot_bucket_stays_linear_and_is_still_one_cluster(tmp_path, monkeypatch):
    monkeypatch.setattr(near, "HUBS", 2)
    base = words(random.Random(1), 200)
    rows = [document(f"{base} ending {i}", f"{i:03d}") for i in range(30)]
    layout = prepare(tmp_path, {"web": rows}, 1)
    assert deduplicate(recipe_of({"web": 1}), layout, "m") == {"near_duplicate": 29}


def select(layout: Layout, mix: str, places: list[tuple[str, str, int]]) -> None:
    """A mix that uses these rows, as `zgcm mix` would write it."""
    sources = sorted({source for source, _, _ in places})
    shards = sorted({shard for _, shard, _ in places})
    write_columns(
        layout.selection(mix, "00000"),
        {
            "source": names(sources, np.array([sources.index(s) for s, _, _ in places])),
            "shard": names(shards, np.array([shards.index(s) for _, s, _ in places])),
            "row": numbers(np.array([row for _, _, row in places], np.int32)),
        },
    )
    exact = [
        pq.read_table(layout.fingerprints(source, shard))["exact"][row].as_py()
        for source, shard, row in places
    ]
    write_columns(layout.kept(mix), {"exact": _binary(exact)})


def _binary(values: list[bytes]):
    from zgcm.tokens.columns import fingerprints

    return fingerprints(np.frombuffer(b"".join(values), np.uint8).reshape(-1, 16))


def test_later_mixes_leave_out_what_resembles_earlier_ones_and_sources_go_by_their_order(tmp_path):
    rng = random.Random(5)
    one, two, three, four = (words(rng, 100) for _ in range(4))
    old = [document(one, "old-1"), document(two, "old-2"), document(f"{four} x", "old-4")]
    new = [
        document(f"{one} more", "new-1"),
        document(f"{three} more", "new-3"),
        document(f"{four} x", "copy-4"),
    ]
    newer = [document(f"{three} and more", "newer-3"), document(f"{one} again", "newer-1")]
    layout = prepare(tmp_path, {"old": old, "new": new, "newer": newer}, 1)
    select(layout, "early", [("old", "00000", 0), ("old", "00000", 2), ("old", "00000", 0)])
    sources = dict.fromkeys(("old", "new", "newer"), 1)
    mixes = {
        "early": {"sources": {"old": 1}},
        "m": {
            "sources": {"newer": 1, "new": 1, "old": 1}, "exclude": ["early"], "near_duplicates": {},
        },
    }  # fmt: skip
    deduplicate(make_recipe(sources, mixes), layout, "m")
    found = {name: (reason, of) for (_, name), (reason, of, _) in removed_ids(layout).items()}
    assert found == {
        "old-1": ("in_mix:early", None),
        "old-4": ("in_mix:early", None),
        "copy-4": ("in_mix:early", None),
        "new-1": ("near_in_mix:early", "old-1"),
        "newer-1": ("near_in_mix:early", "old-1"),
        "new-3": ("near_duplicate", "newer-3"),
    }


def test_simhash_duplicates_of_a_source_that_asks_for_them(tmp_path):
    rng = random.Random(6)
    base = words(rng, 400)
    rows = [document(base, "b"), document(f"{base} x", "a"), document(words(rng, 400), "c")]
    recipe = make_recipe({"web": 1, "books": 1}, {"m": {"sources": {"web": 1, "books": 1}}})
    cleaning = recipe.sources["web"].cleaning.model_copy(
        update={"near_dedup": True, "near_dedup_bands": 16, "near_dedup_threshold": 8}
    )
    recipe.sources["web"] = recipe.sources["web"].model_copy(update={"cleaning": cleaning})
    layout = prepare(tmp_path, {"web": rows, "books": [document(f"{base} y", "d")]}, 1)
    write_fingerprints(layout.cleaned("web", "00000"), layout.fingerprints("web", "00000"), 5)
    deduplicate(recipe, layout, "m")
    assert removed_ids(layout) == {("web", "b"): ("simhash_duplicate", "a", None)}


def test_a_missing_band_file_is_named(tmp_path):
    layout = prepare(tmp_path, {"web": planted(1, 3)}, 1)
    layout.minhash("web", "00000", "14x8x5").unlink()
    with pytest.raises(ZgcmError, match=r"minhash.*zgcm minhash SOURCE SHARD --scheme 14x8x5"):
        deduplicate(recipe_of({"web": 1}), layout, "m")
