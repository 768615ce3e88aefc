import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zgcm.corpus.dedup import deduplicate
from zgcm.corpus.mix import plan_mix
from zgcm.errors import ZgcmError
from zgcm.io import read_json, sha256_file, write_json
from zgcm.tokens import gather
from zgcm.tokens.gather import gather_shard
from zgcm.tokens.indexed import data_path, open_indexed


@pytest.fixture
def planned(workspace):
    recipe, layout = workspace
    deduplicate(recipe, layout, "text_mix")
    plan_mix(recipe, layout, "text_mix")
    return recipe, layout


@pytest.mark.parametrize("batch", [3, 10_000])
def test_spans_are_copied_in_the_planned_order(planned, monkeypatch, batch):
    _, layout = planned
    monkeypatch.setattr(gather, "BATCH", batch)
    plan = read_json(layout.plan("text_mix"))
    for shard in ("00000", "00001"):
        facts = gather_shard(layout, "text_mix", shard)
        out = open_indexed(layout.mix_prefix("text_mix", shard))
        selection = pq.read_table(layout.selection("text_mix", shard)).to_pylist()
        assert len(out) == len(selection) == facts["documents"] == plan["shards"][shard]["documents"]
        assert len(out.tokens) == facts["tokens"] == plan["shards"][shard]["tokens"]
        for row, item in enumerate(selection):
            source = open_indexed(layout.index_prefix(item["source"], item["shard"]))
            assert out.document(row).tolist() == source.document(item["row"]).tolist()
        assert facts["bin_sha256"] == sha256_file(data_path(layout.mix_prefix("text_mix", shard)))
        assert read_json(layout.mix("text_mix") / f"{shard}.json") == facts


def test_a_selection_of_rows_that_are_gone_is_an_error(planned):
    recipe, layout = planned
    from token_workspace import write_source

    from zgcm.tokens.index import index_shard

    write_source(layout, "code", [[]])
    index_shard(recipe, layout, "code", "00000")
    with pytest.raises(ZgcmError, match=r"does not exist.*code/00000 row.*zgcm mix"):
        gather_shard(layout, "text_mix", "00000")
    assert not (layout.mix("text_mix") / "00000.json").exists()
    assert not data_path(layout.mix_prefix("text_mix", "00000")).exists()


def test_a_missing_selection_is_an_error(workspace):
    _, layout = workspace
    with pytest.raises(ZgcmError, match="selection is missing"):
        gather_shard(layout, "text_mix", "00000")


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.slice(0, 0),
        lambda table: table.slice(1),
        lambda table: pa.concat_tables([table, table]),
        lambda table: table.set_column(2, "row", pa.array([-1] * len(table), pa.int32())),
        lambda table: table.drop_columns(["shard"]),
        lambda table: table.set_column(2, "row", pa.array(["0"] * len(table))),
    ],
)
def test_a_selection_edited_by_hand_is_refused(planned, change):
    """Row -1 was the last document, and a part of the rows was taken for all of them."""
    _, layout = planned
    path = layout.selection("text_mix", "00000")
    pq.write_table(change(pq.read_table(path)), path)
    with pytest.raises(ZgcmError, match=r"selection/00000\.parquet.*zgcm mix text_mix"):
        gather_shard(layout, "text_mix", "00000")


def test_a_damaged_selection_is_named(planned):
    _, layout = planned
    path = layout.selection("text_mix", "00000")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ZgcmError, match=r"selection/00000\.parquet.*zgcm mix text_mix"):
        gather_shard(layout, "text_mix", "00000")


@pytest.mark.parametrize("shards", [None, [], "x", {}, {"00000": 5}, {"00000": {}}])
def test_a_plan_that_does_not_know_the_selection_is_an_error(planned, shards):
    _, layout = planned
    write_json(layout.plan("text_mix"), {**read_json(layout.plan("text_mix")), "shards": shards})
    with pytest.raises(ZgcmError, match=r"not the one that the plan describes.*zgcm mix text_mix"):
        gather_shard(layout, "text_mix", "00000")
