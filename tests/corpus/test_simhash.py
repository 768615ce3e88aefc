"""The published SimHash."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from zgcm.corpus.simhash import simhash


def test_golden_vector():
    assert simhash("hello world") == 0x878633AA32A3B150
    assert simhash("  Hello,\nWORLD! ") == simhash("hello world")
    assert simhash("?!") == 0


@given(st.lists(st.sampled_from(["red", "green", "blue"]), min_size=1, max_size=12), st.integers(1, 6))
def test_every_bit_is_the_majority_of_the_features(found, width):
    grams = [" ".join(found[i : i + width]) for i in range(len(found) - width + 1)] or [" ".join(found)]
    hashes = [int.from_bytes(hashlib.blake2b(g.encode(), digest_size=8).digest()) for g in grams]
    expected = 0
    for bit in range(64):
        votes = sum(1 if value >> bit & 1 else -1 for value in hashes)
        expected |= (votes >= 0) << bit
    assert simhash(" ".join(found), width) == expected
