import pytest
from hypothesis import given
from hypothesis import strategies as st

from zgcm.errors import ZgcmError
from zgcm.rl.batch import shares
from zgcm.rl.packing import first_fit_decreasing, minibatches


def test_first_fit_decreasing_golden() -> None:
    # by length: 5 opens a bin, 4 a second, 3 fits the second (4+3=7), 3 fits neither full enough, ...
    assert first_fit_decreasing([3, 5, 3, 4, 2, 1], 7) == [[1, 4], [3, 0], [2, 5]]


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(50, 120))
def test_every_item_once_and_no_bin_over(lengths: list[int], capacity: int) -> None:
    bins = first_fit_decreasing(lengths, capacity)
    assert sorted(item for one in bins for item in one) == list(range(len(lengths)))
    totals = [sum(lengths[item] for item in one) for one in bins]
    assert all(total <= capacity for total in totals)
    # first fit: the first item of a later bin fitted into no earlier one
    assert sum(2 * total <= capacity for total in totals) <= 1


def test_too_long_is_an_error() -> None:
    with pytest.raises(ZgcmError, match="101 tokens"):
        first_fit_decreasing([5, 101], 100)


@given(st.integers(0, 300), st.integers(1, 12), st.integers(0, 5))
def test_minibatches_are_a_balanced_partition(count: int, parts: int, seed: int) -> None:
    split = minibatches(count, parts, seed)
    assert sorted(item for part in split for item in part) == list(range(count))
    assert len(split) == min(parts, count)
    sizes = [len(part) for part in split] or [0]
    assert max(sizes) - min(sizes) <= 1
    assert split == minibatches(count, parts, seed)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=40), st.integers(1, 5))
def test_processes_share_all_micro_batches_and_call_equally_often(lengths: list[int], world: int) -> None:
    items = list(range(100, 100 + len(lengths)))
    dealt = [shares(items, lengths, capacity=50, rank=rank, world=world) for rank in range(world)]
    assert len({len(mine) for mine in dealt}) == 1
    real = [index for mine in dealt for share in mine if not share.filler for index in share.indices]
    assert sorted(real) == items
