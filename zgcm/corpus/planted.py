"""What deduplication and decontamination must find: near-copies of documents, and quoted evaluation items.

The items are word problems over held-out sums; `config/evaluations/word_problems.jsonl` holds the first 32.
"""

import random
from collections.abc import Iterator
from typing import Any

from zgcm.corpus import arithmetic
from zgcm.records import Record

PEOPLE = ("Ada", "Ben", "Chen", "Dora", "Emil", "Fatima", "Goro", "Hanna")
THINGS = ("apples", "books", "candles", "drawings", "eggs", "flowers", "gloves", "hats")
COPIED_CHARS = 1000
"""Shorter documents are not copied: with one word of 100 changed, 5 % of their shingles differ."""


def plant(records: Iterator[Record], count: int, seed: int) -> Iterator[Record]:
    """All records, then `count` planted ones: near-copies of the first long ones and quotations, by turns."""
    originals: list[Record] = []
    for record in records:
        if len(record["text"]) >= COPIED_CHARS and len(originals) < (count + 1) // 2:
            originals.append(record)
        yield record
    for number, (record, item) in enumerate(zip(originals, word_problems(count), strict=False)):
        yield {**record, "id": f"{record['id']}/copy", "text": _changed(record["text"], seed + number)}
        if 2 * number + 1 < count:
            yield {
                **record,
                "id": f"exam/{item['id']}",
                "text": f"From an old exam paper, copied for practice. {item['question']} It adds that the "
                f"answer is {item['answer']}, and that nobody may use a machine.",
            }


def word_problems(count: int) -> Iterator[dict[str, Any]]:
    """The first `count` evaluation items: id, question, answer. Their sums are held out of every text."""
    questions = arithmetic.questions("valid", arithmetic.MAX_DIGIT)
    pairs = [(a, b) for a, b, template in questions if template == 0]
    random.Random("word problems").shuffle(pairs)
    for number, (a, b) in enumerate(pairs[:count]):
        rng = random.Random(f"word problem {number}")
        name, thing = rng.choice(PEOPLE), rng.choice(THINGS)
        yield {
            "id": f"word-problem-{number}",
            "question": f"{name} has {a} {thing} in the morning and gets {b} more from a neighbour in the "
            f"afternoon. How many {thing} does {name} have in the evening?",
            "answer": str(a + b),
        }


def _changed(text: str, seed: int) -> str:
    """One word of the text replaced by another."""
    words = text.split(" ")
    words[random.Random(f"planted {seed}").randrange(len(words))] = "otherwise"
    return " ".join(words)
