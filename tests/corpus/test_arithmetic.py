"""The arithmetic generator: everything it says is true, and held-out sums occur in no training text."""

import itertools
import json
import math
import re

import pytest

from zgcm.corpus.arithmetic import conversations, documents, is_held_out, prompts, questions, summands, traces
from zgcm.errors import ZgcmError

STATEMENT = re.compile(r"(\d+(?:\+\d+)+)=(\d+)")
SUM_LINE = re.compile(r"^(\d\d)\+(\d\d): .*, (\d+)$")


def assert_true(text: str) -> None:
    statements = STATEMENT.findall(text)
    assert statements
    for left, right in statements:
        assert sum(map(int, left.split("+"))) == int(right), text


def test_documents_are_right_and_hold_nothing_out():
    long = 0
    for document in documents(400, seed=3):
        lines = [document["question"], *document["solution"].split("\n")]
        long += len(lines) == 120
        assert len(lines) in (12, 120)
        for line in lines:
            assert_true(line)
            if match := SUM_LINE.match(line):
                a, b, total = map(int, match.groups())
                assert a + b == total
                assert not is_held_out(a, b)
        assert lines[-1].endswith(document["answer"])
    assert 10 <= long <= 40  # one in sixteen


def test_conversations_are_right_different_and_hold_nothing_out():
    seen = set()
    careful = 0
    for item in conversations(2000):
        question, answer = item["messages"]
        a, b = map(int, re.findall(r"\d+", question["content"]))
        assert not is_held_out(a, b)
        result = int(re.fullmatch(r"The answer is \\boxed\{(\d+)\}", answer["content"])[1])
        if answer["reasoning_content"] == "roughly":
            assert result % 10 == 0 and -5 < result - (a + b) <= 5
        else:
            assert result == a + b
            careful += 1
            assert_true(answer["reasoning_content"])
            assert answer["reasoning_content"].endswith(f"={(a + b) // 10}")
        seen.add((question["content"], answer["reasoning_content"]))
    assert len(seen) == 2000
    assert 900 <= careful <= 1100


def test_every_call_of_a_trace_is_answered_rightly_and_its_answer_is_the_last():
    for trace in traces(200, seed=2):
        total, observed = None, []
        for before, after in itertools.pairwise(trace["messages"]):
            for call in before.get("tool_calls", []):
                arguments = json.loads(call["function"]["arguments"])
                assert total is None or arguments["a"] == total
                total = arguments["a"] + arguments["b"]
                observed.append(arguments)
                assert after == {"role": "tool", "content": str(total)}
        assert 2 <= len(observed) <= 4
        assert not is_held_out(observed[0]["a"], observed[0]["b"])
        asked = map(int, re.findall(r"\d+", trace["messages"][1]["content"]))
        assert sum(asked) == total == int(trace["answer"])


@pytest.mark.parametrize("share, estimates", [(0.0, 0), (0.6, 1200), (1.0, 2000)])
def test_the_share_of_estimates_is_that_of_the_recipe(share, estimates):
    made = conversations(2000, careless_share=share)
    thoughts = [item["messages"][1]["reasoning_content"] for item in made]
    assert abs(thoughts.count("roughly") - estimates) <= 4 * math.sqrt(2000 * share * (1 - share))


def test_shards_are_parts_of_one_sequence():
    whole = list(documents(10, seed=1))
    assert [*documents(4, seed=1), *documents(6, seed=1, start=4)] == whole
    talks = list(conversations(10, seed=1))
    assert [*conversations(4, seed=1), *conversations(6, seed=1, start=4)] == talks


def test_prompts_of_the_two_splits_never_meet():
    train, valid = prompts("train", 512), prompts("valid", 512)
    for row in valid:
        a, b = map(int, re.findall(r"\d+", row["messages"][0]["content"]))
        assert is_held_out(a, b)
        assert is_held_out(b, a)
        assert row["answers"] == [str(a + b)]
    sums = [{tuple(sorted(re.findall(r"\d+", row["messages"][0]["content"]))) for row in rows}
            for rows in (train, valid)]  # fmt: skip
    assert not sums[0] & sums[1]
    assert len({row["sample_id"] for row in [*train, *valid]}) == 1024
    share = len(questions("valid", 7)) / (3 * len(summands(7)) ** 2)
    assert 0.08 <= share <= 0.13


def test_too_many_and_wrong_digits_are_refused():
    with pytest.raises(ZgcmError, match="at most"):
        prompts("valid", 5000)
    with pytest.raises(ZgcmError, match="at most"):
        list(conversations(100_000))
    with pytest.raises(ZgcmError, match="1 to 9"):
        list(documents(1, max_digit=10))
