"""Tables and sentences in terminals of any width."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zgcm.terminal import aligned, noted, wrapped

ROWS = [("stage", "steps", "why"), ("sft", "12,000", "a long reason in words"), ("rl", "8", "")]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.delenv("COLUMNS", raising=False)
    return monkeypatch


def test_into_a_file_a_row_is_one_line(terminal: pytest.MonkeyPatch) -> None:
    terminal.setattr("os.get_terminal_size", lambda *_: (_ for _ in ()).throw(OSError))
    assert aligned(ROWS, right={1}) == [
        "stage   steps  why",
        "sft    12,000  a long reason in words",
        "rl          8",
    ]
    assert wrapped("word " * 200) == [("word " * 200).rstrip()]


def test_columns_without_room_come_below_with_the_first_again(terminal: pytest.MonkeyPatch) -> None:
    terminal.setenv("COLUMNS", "20")
    assert aligned(ROWS, right={1}) == [
        "stage   steps",
        "sft    12,000",
        "rl          8",
        "",
        "stage  why",
        "sft    a long reason",
        "       in words",
        "rl",
    ]


def test_a_note_without_room_stands_below_its_line(terminal: pytest.MonkeyPatch) -> None:
    terminal.setenv("COLUMNS", "24")
    assert noted(["sft  done   ", "rl   waiting"], ["", "pass rates of its prompts"]) == [
        "sft  done",
        "rl   waiting",
        "    pass rates of its",
        "    prompts",
    ]
    assert noted(["rl   waiting"], ["soon"]) == ["rl   waiting  soon"]


def test_sentences_keep_their_own_lines(terminal: pytest.MonkeyPatch) -> None:
    terminal.setenv("COLUMNS", "16")
    assert wrapped("one two three four\n\n  five") == ["one two three", "    four", "", "  five"]


WORD = st.text("abcdefgh", min_size=1, max_size=12)
CELL = st.lists(WORD, max_size=6).map(" ".join)


@given(st.data(), st.integers(30, 120))
def test_nothing_is_lost_and_nothing_is_wider(data: st.DataObject, width: int) -> None:
    columns = data.draw(st.integers(1, 6))
    rows = data.draw(st.lists(st.tuples(WORD, *[CELL] * (columns - 1)), min_size=1, max_size=5))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        lines = aligned(rows)
    assert max(map(len, lines)) <= width
    words = set(re.findall(r"\w+", "\n".join(lines)))
    assert words == {word for row in rows for cell in row for word in cell.split()}
