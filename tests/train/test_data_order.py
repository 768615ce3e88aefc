"""Which samples each step consumes, for every order, across stops and other numbers of data-parallel ranks.

Read through megatron-core's own data loader and samplers. Every token of the data tells where it stands, so a
sample is named by its first token.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.train.workspace import write_items
from zgcm.train.datasets import DataPlan, build

LENGTH, BATCH, STEPS = 8, 4, 12


@pytest.fixture(autouse=True, scope="module")
def engine():
    from tests.train.engine import one_process_engine

    one_process_engine()


def shard(root, name, first, documents=40, tokens=16):
    """A shard of documents whose tokens count up from `first`."""
    items = [list(range(first + i * tokens, first + (i + 1) * tokens)) for i in range(documents)]
    write_items(root / name, items, np.int32)
    return str(root / name)


def data_plan(root, order, prefixes, **changes):
    settings = {
        **{"order": order, "prefixes": prefixes, "weights": [1.0] * len(prefixes), "split": "100,0,0"},
        **{"sample_offset": 0, "vocab_size": 100_000, "eod": 99_999, "seq_length": LENGTH, "seed": 6198},
        **{"threads": 1, "cache": str(root / "cache")},
    }
    return DataPlan(**{**settings, **changes})


def steps(monkeypatch, data, total, consumed=0, ranks=1, micro=1, count=None, sharded=False):
    """The samples of each step, named by their first tokens and sorted: ranks see them in any order."""
    from megatron.core import mpu
    from megatron.training.datasets import data_samplers

    args = SimpleNamespace(
        **{"micro_batch_size": micro, "global_batch_size": BATCH, "num_workers": 0, "data_sharding": sharded},
        **{"dataloader_type": "cyclic" if data.order == "cyclic" else "single", "exit_signal_handler": False},
        **{"hybrid_context_parallel": False, "full_validation": False},
    )
    monkeypatch.setattr(data_samplers, "get_args", lambda: args)
    monkeypatch.setattr(mpu, "get_data_parallel_world_size", lambda *_, **__: ranks)
    dataset, _, _ = build(data, (total, 0, 0))
    loaders = []
    for rank in range(ranks):
        monkeypatch.setattr(mpu, "get_data_parallel_rank", lambda *_, rank=rank, **__: rank)
        loaders.append(iter(data_samplers.build_pretraining_data_loader(dataset, consumed)))
    found = []
    for _ in range((total - consumed) // BATCH if count is None else count):
        batches = [next(loader) for loader in loaders for _ in range(BATCH // (ranks * micro))]
        found.append(sorted(int(row[0]) for batch in batches for row in batch["tokens"]))
    return found


def stream(root):
    """Curriculum: two shards in listed order."""
    return data_plan(root, "sequential", [shard(root, "a", 0), shard(root, "b", 1000)]), BATCH * STEPS, 0


def continued(root):
    """Pre-shuffled, sequential, after 20 samples of the stage before: cumulative counts, own first sample."""
    prefixes = [shard(root, "a", 0), shard(root, "b", 1000)]
    return data_plan(root, "sequential", prefixes, sample_offset=20), 20 + BATCH * STEPS, 20


def shuffled(root):
    return data_plan(root, "shuffled", [shard(root, "a", 0)]), BATCH * STEPS, 0


def blend(root):
    """Three weighted shards of two mixes, as mid-training has them."""
    prefixes = [shard(root, "a", 0), shard(root, "b", 1000), shard(root, "c", 2000)]
    return data_plan(root, "shuffled", prefixes, weights=[2.0, 2.0, 1.0]), BATCH * STEPS, 0


def packed(root):
    """30 packed sequences of one conversation each, consumed 1.6 times."""
    rows = [list(range(i * LENGTH, (i + 1) * LENGTH)) for i in range(30)]
    for part, items in (("tokens", rows), ("targets", rows), ("cu_seqlens", [[0, LENGTH]] * 30)):
        write_items(root / f"p_{part}", items, np.int32)
    return data_plan(root, "cyclic", [str(root / "p")]), BATCH * STEPS, 0


ORDERS = (stream, continued, shuffled, blend, packed)


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.__name__)
@pytest.mark.parametrize("stop", [1, 5, 11])
def test_a_stop_changes_nothing(order, stop, tmp_path, monkeypatch):
    data, total, before = order(tmp_path)
    whole = steps(monkeypatch, data, total, before)
    assert len(whole) == STEPS
    first = steps(monkeypatch, data, total, before, count=stop)
    rest = steps(monkeypatch, data, total, before + stop * BATCH)
    assert first + rest == whole


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.__name__)
def test_another_number_of_ranks_changes_nothing(order, tmp_path, monkeypatch):
    """From the first step, and after a stop: one rank, then four, then two with micro-batches of two."""
    data, total, before = order(tmp_path)
    whole = steps(monkeypatch, data, total, before)
    assert steps(monkeypatch, data, total, before, ranks=2) == whole
    parts = steps(monkeypatch, data, total, before, count=3)
    parts += steps(monkeypatch, data, total, before + 3 * BATCH, ranks=4, count=4)
    micro = 1 if data.order == "cyclic" else 2  # packed sequences go one at a time
    parts += steps(monkeypatch, data, total, before + 7 * BATCH, ranks=2, micro=micro)
    assert parts == whole


def test_sharded_ranks_would_change_the_order_of_packed_sequences(tmp_path, monkeypatch):
    """Why SFT passes --no-data-sharding: the default order hangs on the number of ranks."""
    data, total, _ = packed(tmp_path)
    one, two = (steps(monkeypatch, data, total, ranks=ranks, sharded=True) for ranks in (1, 2))
    assert one == steps(monkeypatch, data, total)
    assert one != two


def test_the_stream_is_read_in_order(tmp_path, monkeypatch):
    data, total, _ = stream(tmp_path)
    flat = [sample for step in steps(monkeypatch, data, total) for sample in step]
    assert flat == [i * LENGTH for i in range(BATCH * STEPS)]


def test_a_continued_stage_begins_at_its_own_first_sample(tmp_path, monkeypatch):
    """And reads on into the second shard, whose tokens begin at 1000."""
    data, total, before = continued(tmp_path)
    flat = [sample for step in steps(monkeypatch, data, total, before) for sample in step]
    assert flat == [i * LENGTH for i in range(BATCH * STEPS)]
    later = steps(monkeypatch, data, before + 90 * BATCH, before + 80, count=1)
    assert later == [[1000 + i * LENGTH for i in range(4)]]


def test_continued_stages_restart_as_often_as_they_must(tmp_path, monkeypatch):
    """The original's second stage cannot be restarted: every start began again at its first sample."""
    data, total, before = continued(tmp_path)
    pieces = []
    for step in range(STEPS):
        pieces += steps(monkeypatch, data, total, before + step * BATCH, count=1)
    assert pieces == steps(monkeypatch, data, total, before)


def test_a_shuffle_reads_each_sample_once_and_follows_the_seed(tmp_path, monkeypatch):
    data, _, _ = shuffled(tmp_path)
    every = 40 * 16 // LENGTH - 4  # one epoch; the last sample lacks its label, and steps are whole
    read = [sample for step in steps(monkeypatch, data, every) for sample in step]
    assert len(set(read)) == len(read) == every
    assert read != sorted(read)
    other = data_plan(tmp_path, "shuffled", data.prefixes, seed=1)
    assert steps(monkeypatch, other, every) != steps(monkeypatch, data, every)


def test_a_blend_is_megatrons_own_of_the_same_data_args_file(tmp_path, monkeypatch):
    """`weight prefix` lines, as the published script writes them, mean what the recipe's mix weights mean."""
    from megatron.core.datasets.utils import get_blend_from_list

    data, total, _ = blend(tmp_path)
    lines = [f"{weight:g} {prefix}" for weight, prefix in zip(data.weights, data.prefixes, strict=True)]
    (tmp_path / "data_args.txt").write_text("\n".join(lines) + "\n")
    prefixes, weights = get_blend_from_list((tmp_path / "data_args.txt").read_text().split())
    assert (prefixes, weights) == (data.prefixes, data.weights)
    read = [sample // 1000 for step in steps(monkeypatch, data, total) for sample in step]
    assert np.bincount(read).tolist() == [19, 19, 10]  # 2 : 2 : 1 of 48


def test_packed_sequences_repeat_by_position_not_by_pass(tmp_path, monkeypatch):
    """One permutation of all 48 samples: record i is read by samples i and i + 30 (as published)."""
    data, total, _ = packed(tmp_path)
    read = [sample // LENGTH for step in steps(monkeypatch, data, total) for sample in step]
    assert np.bincount(read, minlength=30).tolist() == [2] * 18 + [1] * 12
