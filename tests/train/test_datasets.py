"""The three data orders, against megatron-core's own dataset and against the format's rules written out."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.train.workspace import EOD, VOCABULARY, make, write_items
from zgcm.train.datasets import IGNORED, DataPlan, PackedSequences, TokenStream, build, packed_sample


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return make(tmp_path_factory.mktemp("data") / "results")


def plan(layout, mixes, order, **changes):
    prefixes, weights = [], []
    for mix, shards, weight in mixes:
        for shard in shards:
            packed = order == "cyclic"
            path = layout.packed_prefix(mix, shard) if packed else layout.mix_prefix(mix, shard)
            prefixes.append(str(path)), weights.append(weight)
    settings = {
        **{"order": order, "prefixes": prefixes, "weights": weights, "split": "100,0,0", "sample_offset": 0},
        **{"vocab_size": VOCABULARY, "eod": EOD, "seq_length": 32, "seed": 6198, "threads": 1},
        "cache": str(layout.root / "cache"),
    }
    return DataPlan(**{**settings, **changes})


def test_stream_is_all_shards_in_order(workspace, tmp_path):
    """Sample for sample what an unshuffled dataset of megatron-core over one file of all documents gives."""
    from megatron.core.datasets.indexed_dataset import IndexedDataset

    _, layout = workspace
    data = plan(layout, [("first", ["00000", "00001"], 1)], "sequential")
    shards = [IndexedDataset(prefix) for prefix in data.prefixes]
    documents = [row for shard in shards for row in shard]
    text = np.concatenate(documents).astype(np.int64)
    train, valid, test = build(data, (20, 0, 0))
    assert (valid, test) == (None, None)
    assert len(train) == 20
    for index in range(20):
        sample = train[index]
        assert sample["tokens"].tolist() == text[index * 32 : index * 32 + 32].tolist()
        assert sample["labels"].tolist() == text[index * 32 + 1 : index * 32 + 33].tolist()
        assert sample["loss_mask"].tolist() == [1.0] * 32


def test_stream_starts_again_and_honours_the_offset(tmp_path):
    for number, items in enumerate([[[1, 2, 3], [4, 5]], [[6, 7]]]):
        write_items(tmp_path / f"{number}", items, np.uint16)
    prefixes = [str(tmp_path / "0"), str(tmp_path / "1")]
    stream = TokenStream(prefixes, seq_length=4, samples=103, sample_offset=100)
    assert stream[100]["tokens"].tolist() == [1, 2, 3, 4]
    assert stream[100]["labels"].tolist() == [2, 3, 4, 5]
    assert stream[101]["tokens"].tolist() == [5, 6, 7, 1]
    assert stream[102]["labels"].tolist() == [3, 4, 5, 6]


def test_shuffled_blend_follows_weights_and_seed(workspace):
    _, layout = workspace
    mixes = [("long", ["00000", "00001"], 2), ("short", ["00000"], 1)]
    first, valid, _ = build(plan(layout, mixes, "shuffled"), (100, 0, 0))
    again, _, _ = build(plan(layout, mixes, "shuffled", cache=str(layout.root / "other")), (100, 0, 0))
    other, _, _ = build(plan(layout, mixes, "shuffled", seed=1), (100, 0, 0))
    assert valid is None
    assert np.bincount(first.dataset_index[:100]).tolist() == [40, 40, 20]
    rows = [[data[index]["tokens"].tolist() for index in range(30)] for data in (first, again, other)]
    assert rows[0] == rows[1] != rows[2]


def test_document_ends_stay_in_input_and_loss(workspace):
    """Our padding token is the end-of-document token; upstream would mask it and write token 0 over it."""
    _, layout = workspace
    train, _, _ = build(plan(layout, [("long", ["00000"], 1)], "shuffled", eod=7), (30, 0, 0))
    samples = [train[index] for index in range(30)]
    assert all(sample["loss_mask"].min() == 1.0 for sample in samples)
    assert any((sample["labels"] == 7).any() for sample in samples)


def test_a_validation_share_is_built_only_when_asked_for(workspace):
    _, layout = workspace
    data = plan(layout, [("long", ["00000"], 1)], "shuffled", split="90,10,0")
    assert build(data, (20, 0, 0))[1] is None
    assert len(build(data, (20, 4, 0))[1]) >= 4


def test_packed_sample_by_hand():
    """Two conversations of 3 and 4 tokens in a sequence of 9 + 1; pad id 0."""
    sample = packed_sample(
        np.array([11, 12, 13, 21, 22, 23, 24]),
        np.array([-100, 12, 13, -100, -100, 23, 24]),
        np.array([0, 3, 7]),
        seq_length=9,
        pad=0,
    )
    assert sample["tokens"].tolist() == [11, 12, 13, 21, 22, 23, 24, 0, 0]
    assert sample["labels"].tolist() == [12, 13, -100, -100, 23, 24, 0, 0, 0]
    assert sample["loss_mask"].tolist() == [1, 1, 0, 0, 1, 1, 0, 0, 0]
    assert sample["position_ids"].tolist() == [0, 1, 2, 0, 1, 2, 3, 4, 5]
    assert sample["cu_seqlens"].tolist() == [0, 3, 9]


def test_a_record_of_one_more_than_the_length_has_no_padding():
    tokens = np.arange(1, 10)
    sample = packed_sample(tokens, tokens, np.array([0, 9]), seq_length=8, pad=0)
    assert sample["labels"].tolist() == list(range(2, 10))
    assert sample["loss_mask"].tolist() == [1.0] * 8


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(0, 5), st.integers(0, 10**6))
def test_packed_sample_rules(lengths, room, seed):
    random = np.random.default_rng(seed)
    count = sum(lengths)
    seq_length = count + room
    tokens = random.integers(1, 50, count)
    targets = np.where(random.random(count) < 0.5, tokens, IGNORED)
    sample = packed_sample(tokens, targets, np.cumsum([0, *lengths]), seq_length, pad=0)
    assert {len(sample[key]) for key in ("tokens", "labels", "loss_mask", "position_ids")} == {seq_length}
    learned = [i for i in range(seq_length) if sample["loss_mask"][i]]
    assert learned == [i for i in range(count - 1) if targets[i + 1] != IGNORED]
    assert sample["cu_seqlens"][-1] == seq_length
    starts = [0, *np.cumsum(lengths)[:-1].tolist()]
    assert [i for i in range(count) if sample["position_ids"][i] == 0] == starts


@pytest.mark.parametrize(
    ("tokens", "targets", "edges", "message"),
    [
        ([1, 2], [1], [0, 2], "2 tokens but 1 targets"),
        ([1] * 6, [1] * 6, [0, 6], "longer than the sequence length"),
        ([1, 2], [1, 2], [0], "cu_seqlens"),
        ([1, 2], [1, 2], [1, 2], "cu_seqlens"),
        ([1, 2], [1, 2], [0, 1], "cu_seqlens"),
        ([1, 2, 3], [1, 2, 3], [0, 2, 1, 3], "cu_seqlens"),
    ],
)
def test_malformed_records_are_refused(tokens, targets, edges, message):
    with pytest.raises(ValueError, match=message):
        packed_sample(np.array(tokens), np.array(targets), np.array(edges), seq_length=4, pad=0)


def test_packed_sequences_repeat_and_split(workspace):
    _, layout = workspace
    data = plan(layout, [("packed", ["00000"], 1)], "cyclic", seq_length=64, split="90,10,0")
    train, valid, _ = build(data, (300, 7, 0))
    assert isinstance(train, PackedSequences)
    assert (len(train), len(train.records), len(valid.records)) == (300, 135, 15)
    assert torch.equal(train[3]["tokens"], train[3 + 135]["tokens"])
    assert not torch.equal(train[0]["tokens"], valid[0]["tokens"])
