"""Words, runs and sets against a plain reading of the rule."""

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from zgcm.corpus.shingles import gram_hashes, jaccard, shingles, word_hashes, words
from zgcm.corpus.text import comparison_form


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_words_are_those_of_the_pattern(text):
    assert [word.decode() for word in words(text)] == re.findall(r"\w+", comparison_form(text))


def test_words_ignore_case_punctuation_and_width_and_split_unspaced_scripts():
    assert b" ".join(words("Hello, WORLD_1!\n(x=2)")) == b"hello world_1 x 2"
    assert [word.decode() for word in words("Straße ＡＢＣ 大模型training数据")] == [
        "strasse", "abc", "大", "模", "型", "training", "数", "据",
    ]  # fmt: skip
    assert words("한국어 텍스트") == ["한국어".encode(), "텍스트".encode()]  # Korean has spaces
    assert words("lone \ud800 surrogate") == [b"lone", b"surrogate"]


@given(st.lists(st.sampled_from("abc"), max_size=30), st.integers(1, 6))
def test_equal_runs_and_only_those_have_equal_hashes(letters, width):
    hashes = gram_hashes(word_hashes([letter.encode() for letter in letters]), width)
    runs = ["".join(letters[i : i + width]) for i in range(len(letters) - width + 1)]
    assert len(hashes) == len(runs)
    assert len(set(hashes.tolist())) == len(set(runs)) == len(set(zip(runs, hashes.tolist(), strict=True)))


def test_a_short_text_is_one_shingle_and_an_empty_one_none():
    assert len(shingles("only three words", 5)) == 1
    assert len(shingles("... !!!", 5)) == 0
    assert len(shingles("a b a b a b a b", 5)) == 2  # a set


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40), min_size=1))
def test_jaccard(first, second):
    sets = (np.array(sorted(numbers), np.uint64) for numbers in (first, second))
    assert jaccard(*sets) == len(first & second) / len(first | second)
