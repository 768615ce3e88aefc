"""Planted documents: as many as asked for, near-copies nearly equal, quotations literal, sums held out."""

import re
from pathlib import Path

from zgcm.corpus.arithmetic import is_held_out
from zgcm.corpus.planted import plant, word_problems
from zgcm.records import read_records

EVALUATION = Path(__file__).parents[2] / "config/evaluations/word_problems.jsonl"


def test_near_copies_and_quotations_come_last():
    records = [{"id": str(n), "text": " ".join(f"word{n}_{i}" for i in range(200))} for n in range(5)]
    planted = list(plant(iter(records), 5, seed=0))
    assert planted[:5] == records
    copies, quotations = planted[5::2], planted[6::2]
    for copy, record in zip(copies, records, strict=False):
        pairs = zip(copy["text"].split(), record["text"].split(), strict=True)
        assert sum(a != b for a, b in pairs) == 1
    items = [item["question"] for item in word_problems(5)]
    assert [item in quotation["text"] for item, quotation in zip(items, quotations, strict=False)] == [
        True
    ] * 2
    assert len({record["id"] for record in planted}) == 10


def test_the_committed_evaluation_file_is_what_the_generator_says():
    items = list(read_records(EVALUATION))
    assert items == list(word_problems(32))
    for item in items:
        a, b = map(int, re.findall(r"\d+", item["question"]))
        assert is_held_out(a, b) and int(item["answer"]) == a + b
