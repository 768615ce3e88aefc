"""Packing against a naive best-fit, the published record rules, and what is learned."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from token_workspace import conversation, sum_conversation, write_source

from zgcm.corpus.dedup import deduplicate
from zgcm.corpus.mix import plan_mix
from zgcm.errors import ZgcmError
from zgcm.io import read_json
from zgcm.tokens.index import index_shard
from zgcm.tokens.indexed import open_indexed
from zgcm.tokens.pack import IGNORE_INDEX, pack_bins, pack_shard, summarize
from zgcm.tokens.tokenizer import load_tokenizer

lengths_and_capacity = st.integers(1, 40).flatmap(
    lambda capacity: st.tuples(st.lists(st.integers(1, capacity), max_size=60), st.just(capacity))
)


def naive_best_fit(lengths, capacity):
    bins = []
    for item in range(len(lengths)):
        room = [(capacity - sum(lengths[i] for i in b), n) for n, b in enumerate(bins)]
        fitting = [(left, n) for left, n in room if left >= lengths[item]]
        bins[min(fitting)[1]].append(item) if fitting else bins.append([item])
    return bins


@given(lengths_and_capacity)
def test_equals_a_naive_best_fit(case):
    lengths, capacity = case
    bins = pack_bins(lengths, capacity)
    assert bins == naive_best_fit(lengths, capacity)
    assert sorted(item for b in bins for item in b) == list(range(len(lengths)))
    assert all(sum(lengths[i] for i in b) <= capacity for b in bins)


def test_every_sequence_is_like_the_whole():
    """Two kinds of answers, told apart by their length: no sequence holds one kind only."""
    rng = random.Random(0)
    lengths = [rng.choice((30, 42)) for _ in range(5000)]
    bins = pack_bins(lengths, 1024)
    shares = [sum(lengths[i] == 30 for i in b) / len(b) for b in bins]
    assert 0.4 < sum(shares) / len(shares) < 0.6
    assert min(shares) > 0.1 and max(shares) < 0.9
    assert sum(lengths) / (len(bins) * 1024) > 0.97


def packed(layout, shard="00000"):
    prefix = layout.packed_prefix("sft", shard)
    return [open_indexed(prefix.with_name(f"{shard}_{part}")) for part in ("tokens", "targets", "cu_seqlens")]


@pytest.fixture
def planned(workspace):
    recipe, layout = workspace
    deduplicate(recipe, layout, "sft")
    plan_mix(recipe, layout, "sft")
    return recipe, layout


def test_records_obey_the_published_rules_and_hold_every_conversation(planned):
    recipe, layout = planned
    facts = pack_shard(recipe, layout, "sft", "00000")
    tokens, targets, edges = packed(layout)
    assert len(tokens) == len(targets) == len(edges) == facts["sequences"]
    source = open_indexed(layout.index_prefix("talk", "00000"))
    seen = []
    for row in range(len(tokens)):
        item, target, cu = tokens.document(row), targets.document(row), edges.document(row)
        assert len(item) == len(target) <= 128
        assert cu[0] == 0 and cu[-1] == len(item) and (np.diff(cu) > 0).all()
        assert ((target == item) | (target == IGNORE_INDEX)).all()
        seen += [tuple(item[a:b]) for a, b in itertools.pairwise(cu)]
    assert sorted(seen) == sorted(tuple(source.document(row)) for row in range(len(source)))
    assert facts["tokens"] == sum(map(len, seen))
    assert targets.tokens.dtype == edges.tokens.dtype == np.int32


def test_loss_is_on_reasoning_answer_and_end_only(planned):
    recipe, layout = planned
    pack_shard(recipe, layout, "sft", "00000")
    tokens, targets, edges = packed(layout)
    tokenizer = load_tokenizer(layout.tokenizer)
    item, target, cu = tokens.document(0), targets.document(0), edges.document(0)
    for a, b in itertools.pairwise(cu):
        text = tokenizer.decode(item[a:b], skip_special_tokens=False)
        learned = target[a:b][target[a:b] != IGNORE_INDEX]
        opening = "<|assistant|><think>" if "<think>" in text else "<|assistant|></think>"
        assert tokenizer.decode(learned, skip_special_tokens=False) == text.split(opening)[1]
        assert text.endswith("}<|endoftext|>")


def test_megatron_reads_the_triples(planned):
    from megatron.core.datasets.indexed_dataset import IndexedDataset

    recipe, layout = planned
    pack_shard(recipe, layout, "sft", "00000")
    for part, ours in zip(("tokens", "targets", "cu_seqlens"), packed(layout), strict=True):
        theirs = IndexedDataset(str(layout.packed_prefix("sft", f"00000_{part}")))
        assert [theirs[i].tolist() for i in range(len(theirs))] == [
            ours.document(i).tolist() for i in range(len(ours))
        ]


def test_same_bytes_again(planned):
    recipe, layout = planned
    assert pack_shard(recipe, layout, "sft", "00000") == pack_shard(recipe, layout, "sft", "00000")


def replan(recipe, layout, rows):
    write_source(layout, "talk", [rows])
    index_shard(recipe, layout, "talk", "00000")
    deduplicate(recipe, layout, "sft")
    plan_mix(recipe, layout, "sft")
    return pack_shard(recipe, layout, "sft", "00000")


def test_long_and_untrainable_conversations_are_reported_never_cut(workspace):
    recipe, layout = workspace
    long = conversation(
        [{"role": "user", "content": "x"}, {"role": "assistant", "content": "ka lo mi " * 90}], "long"
    )
    silent = conversation([{"role": "user", "content": "anyone?"}], "silent")
    facts = replan(recipe, layout, [sum_conversation(1, 2), long, silent])
    assert (facts["conversations"], facts["too_long"], facts["without_loss"]) == (1, 1, 1)
    assert [(item["row"], item["reason"]) for item in facts["reported"]] == [
        (1, "too_long"),
        (2, "without_loss"),
    ]
    dataset = summarize(recipe, layout, "sft")
    assert dataset["train_records"] == 1
    assert (
        dataset["train_tokens"]
        == facts["tokens"]
        == len(open_indexed(layout.index_prefix("talk", "00000")).document(0))
    )
    assert dataset["too_long"] == 1 and len(dataset["reported"]) == 2
    assert read_json(layout.dataset("sft")) == dataset


def test_nothing_to_pack_is_an_error(workspace):
    recipe, layout = workspace
    silent = conversation([{"role": "user", "content": "anyone?"}], "silent")
    with pytest.raises(ZgcmError, match=r"can be packed.*1 without an assistant turn") as error:
        replan(recipe, layout, [silent])
    assert error.value.where == "mixes.sft" and error.value.hint.startswith("bring conversations")
    assert not layout.packed_prefix("sft", "00000").with_suffix(".json").exists()
