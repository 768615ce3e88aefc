"""Normal forms: the published one, and the layout that code keeps."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zgcm.corpus.text import code_form, comparison_form, normal_form, prose_form

FUNCTION = "def f(x):\n    return x"


def test_published_form_loses_indentation_ours_keeps_it():
    assert normal_form(FUNCTION) == "def f(x):\nreturn x"
    assert code_form(FUNCTION) == FUNCTION


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("a\r\nb\rc", "a\nb\nc"),
        ("  a \t  b  \n  c ", "a b\nc"),
        ("a\n\n\n\nb", "a\n\nb"),
        ("a\n  \n \n\nb", "a\n\nb"),
        ("ﬁne①", "fine1"),
        ("a\x00\x07b\x7f", "ab"),
        ("全角　空白", "全角 空白"),
        (" \n\t\n ", ""),
    ],
)
def test_published_form(text, form):
    assert normal_form(text) == form


def test_code_form_keeps_columns():
    source = "\n\n  x = 1   # one\n\ty  =  2 \t\n\n\n\n  z\n"
    assert code_form(source) == "  x = 1   # one\n\ty  =  2\n\n  z"


def test_fenced_blocks_keep_their_layout_the_rest_does_not():
    text = "  Look   here:\n\n```python\ndef f():\n    return  1  \n```\n   and  there\n"
    assert prose_form(text) == "Look here:\n\n```python\ndef f():\n    return  1\n```\nand there"
    assert prose_form("```\n  never closed") == "```\nnever closed"


@given(st.text(st.characters(exclude_categories=["Cc"]) | st.sampled_from("\n\t \r"), max_size=200))
def test_forms_are_stable_and_normalised(text):
    for form in (normal_form, prose_form):
        once = form(text)
        assert form(once) == once
        assert unicodedata.is_normalized("NFKC", once)
        assert "\n\n\n" not in once


@given(st.text(alphabet="ab \n\t{}", max_size=200))
def test_code_form_changes_trailing_blanks_and_empty_lines_only(text):
    def seen(source: str) -> list[str]:
        return [line.rstrip(" \t") for line in source.split("\n") if line.strip(" \t")]

    assert seen(code_form(text)) == seen(text)


def test_comparison_ignores_case_and_blanks():
    assert comparison_form("Straße\n   X") == comparison_form("STRASSE  \nx")
    assert comparison_form("a b") != comparison_form("ab")
