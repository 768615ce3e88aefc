"""Golden values of the published helpers and what quotas promise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zgcm.corpus.stable import (
    allocate_mix_quotas,
    deterministic_shuffle_key,
    shuffled_order,
    stable_partition,
)
from zgcm.errors import ZgcmError


def ranked(ids: list[str], seed: str) -> list[str]:
    return [ids[position] for position in shuffled_order(ids, seed)]


def prefix_mix(seed: str) -> list[list[str]]:
    """mix16 <- B16, mix64 <- B16 + B64, mix256 <- all, without repetition; 1, 2 and 2 documents."""
    buckets, taken, mixes = [["a", "b", "c"], ["d", "e"], ["f", "g"]], set(), []
    for number, (name, count) in enumerate((("mix16", 1), ("mix64", 2), ("mix256", 2))):
        ids = sorted({i for bucket in buckets[: number + 1] for i in bucket} - taken)
        mixes.append(ranked(ids, f"{seed}:{name}")[:count])
        taken.update(mixes[-1])
    return mixes


def test_published_values():
    assert stable_partition("row-1", 32, "v1") == 29
    assert stable_partition("row-1", 32) == 13
    assert deterministic_shuffle_key("row-1").hex() == "b1e7868e761ceaea478fd37684747a3c"
    assert allocate_mix_quotas({"code": 0.5, "web": 0.3, "math": 0.2}, 11) == {"code": 6, "web": 3, "math": 2}
    assert prefix_mix("test") == [["b"], ["e", "a"], ["f", "c"]]
    assert prefix_mix("zgcm-midtrain") == [["b"], ["c", "e"], ["d", "a"]]
    code, web = ranked(["c1", "c2", "c3"], "mix-v1:code")[:2], ranked(["w1", "w2"], "mix-v1:web")[:1]
    assert ranked([*code, *web], "mix-v1:mix") == ["w1", "c3", "c2"]


@given(st.lists(st.text(max_size=5), unique=True, max_size=30), st.text(max_size=4))
def test_order_is_by_key_bytes_and_independent_of_the_order_given(ids, seed):
    expected = sorted(ids, key=lambda name: deterministic_shuffle_key(name, seed))
    assert ranked(ids, seed) == ranked(ids[::-1], seed) == expected


weights = st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 100, allow_nan=False), min_size=1)


@given(weights.filter(lambda w: any(w.values())), st.integers(0, 10**13))
def test_quotas_add_up_and_are_within_one_of_their_share(weights, total):
    quotas = allocate_mix_quotas(weights, total)
    assert sum(quotas.values()) == total
    assert quotas.keys() == {name for name, weight in weights.items() if weight > 0}
    whole = sum(weights.values())
    for name, quota in quotas.items():
        assert abs(quota - total * weights[name] / whole) < 1 + total * 1e-12


def test_ties_go_to_the_first_name():
    assert allocate_mix_quotas({"b": 1, "a": 1}, 3) == {"a": 2, "b": 1}
    assert allocate_mix_quotas({"c": 0.1, "b": 0.1, "a": 0.1}, 10) == {"a": 4, "b": 3, "c": 3}


@pytest.mark.parametrize(("weights", "total"), [({}, 1), ({"a": 0.0}, 1), ({"a": 1.0}, -1)])
def test_impossible_quotas(weights, total):
    with pytest.raises(ZgcmError, match="positive weight"):
        allocate_mix_quotas(weights, total)
    with pytest.raises(ZgcmError, match="at least one part"):
        stable_partition("x", 0)
