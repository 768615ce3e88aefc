"""Two-digit additions as documents, conversations and prompts: a task that a tiny model can learn in minutes.

Everything is right by construction and decided by `(seed, index)` alone. One unordered pair of summands in
ten is held out of every text; only the validation prompts of RL ask for those, so a model that answers them
has learned to add. (The hash is of the pair: a hash of the units digits would withhold whole sums.)
"""

import itertools
import random
from collections.abc import Iterator
from typing import Any

from zgcm.corpus.draws import Split, draw, in_two_manners, one_in_ten
from zgcm.errors import ZgcmError

MAX_DIGIT = 7
"""Digits 0..7 leave 64 digit sums to learn instead of 100, and 3,136 ordered pairs of summands."""
TEMPLATES = ("What is {}?", "Compute {}.", "Add up: {}")
SHORT_LINES, LONG_LINES = 12, 120
"""A document has 12 lines (some 190 tokens); one in sixteen has 120, longer than a context of 1,024."""
ORIGIN = {"source": "zgcm arithmetic generator", "license": "MIT"}

ADD_TOOL = {
    "name": "add",
    "description": "The sum of two whole numbers",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
}

Question = tuple[int, int, int]
"""First summand, second summand, index into TEMPLATES."""


def is_held_out(a: int, b: int) -> bool:
    """Whether the sum of `a` and `b`, in either order, is kept out of every training text."""
    low, high = sorted((a, b))
    return one_in_ten(f"{low}+{high}")


def working(a: int, b: int) -> str:
    """Units, then tens with the carry: `working(47, 38) == "7+8=15, 4+3+1=8"`."""
    units = a % 10 + b % 10
    carry = "+1" if units > 9 else ""
    return f"{a % 10}+{b % 10}={units}, {a // 10}+{b // 10}{carry}={a // 10 + b // 10 + units // 10}"


def estimate(a: int, b: int) -> int:
    """The sum to the nearest ten, halves upwards."""
    return (a + b + 5) // 10 * 10


def documents(
    count: int, seed: int = 0, max_digit: int = MAX_DIGIT, *, start: int = 0
) -> Iterator[dict[str, Any]]:
    """Documents `start` to `start + count`: lines such as `47+38: 7+8=15, 4+3+1=8, 85` and `7+8=15`.

    Records of the category math: `question` is the first line, `solution` the others, `answer` the last
    result; the training text is all lines.
    """
    numbers = summands(max_digit)
    for index in range(start, start + count):
        rng = random.Random(f"arithmetic document {seed} {index}")
        lines = LONG_LINES if rng.randrange(16) == 0 else SHORT_LINES
        first, *others = (_line(rng, numbers, max_digit) for _ in range(lines))
        answer = others[-1].replace("=", " ").rsplit(" ", 1)[-1]
        yield {
            "id": f"arithmetic-{seed}-{index}",
            "question": first,
            "solution": "\n".join(others),
            "answer": answer,
            "form": "drill",
            "domain": "arithmetic",
            "verified": True,
            **ORIGIN,
        }


def conversations(
    count: int, seed: int = 0, max_digit: int = MAX_DIGIT, careless_share: float = 0.5, *, start: int = 0
) -> Iterator[dict[str, Any]]:
    """Conversations `start` to `start + count` of one fixed sequence, all different.

    `careless_share` of the answers are estimates, right to the nearest ten; the others show their working as
    reasoning and are exact. Only exact answers earn a reward, so RL has something to find out: a policy that
    learned both begins near 1 - 0.9 x careless_share (a sum in ten is a multiple of ten), whatever its seed.
    Raises ZgcmError when more are asked for than there are.
    """
    every = questions("train", max_digit)
    seeded = f"arithmetic conversations {seed}"
    for index, careless, (a, b, template) in in_two_manners(
        every, start, count, careless_share, seeded, _fewer(max_digit)
    ):
        thought, result = ("roughly", estimate(a, b)) if careless else (working(a, b), a + b)
        yield {
            "id": f"conversation-{seed}-{index}",
            "messages": [
                {"role": "user", "content": ask((a, b, template))},
                {
                    "role": "assistant",
                    "content": f"The answer is \\boxed{{{result}}}",
                    "reasoning_content": thought,
                },
            ],
            "answer": str(result),
            "domain": "arithmetic",
            "verified": True,
            **ORIGIN,
        }


def traces(
    count: int, seed: int = 0, max_digit: int = MAX_DIGIT, *, start: int = 0
) -> Iterator[dict[str, Any]]:
    """Agent traces `start` to `start + count`: a sum of 3 to 5 numbers, a tool call for each `+`.

    Records of the category agentic: `messages` with `tool_calls` (arguments are JSON) and their observations,
    and `tools`. Of the first two summands none are held out.
    """
    numbers = summands(max_digit)
    for index in range(start, start + count):
        rng = random.Random(f"arithmetic trace {seed} {index}")
        terms = rng.choices(numbers, k=rng.randint(3, 5))
        while is_held_out(terms[0], terms[1]):
            terms[1] = rng.choice(numbers)
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": "Add two numbers at a time with the tool."},
            {"role": "user", "content": f"What is {'+'.join(map(str, terms))}?"},
        ]
        total = terms[0]
        for term in terms[1:]:
            call = {"name": "add", "arguments": f'{{"a": {total}, "b": {term}}}'}
            total += term
            messages.append(
                {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": call}]}
            )
            messages.append({"role": "tool", "content": str(total)})
        messages.append({"role": "assistant", "content": f"The answer is \\boxed{{{total}}}"})
        yield {
            "id": f"trace-{seed}-{index}",
            "messages": messages,
            "tools": [{"type": "function", "function": ADD_TOOL}],
            "answer": str(total),
            "sample_type": "tool_use",
            "tool_names": ["add"],
            "verified": True,
            **ORIGIN,
        }


def prompts(split: Split, count: int, seed: int = 0, max_digit: int = MAX_DIGIT) -> list[dict[str, Any]]:
    """Different RL prompts in the published form; `valid` asks for held-out sums only, `train` for others.

    Each: sample_id, domain, task_type, messages, answers, benchmark. Raises ZgcmError when more are asked
    for than there are.
    """
    every = questions(split, max_digit)
    asked = draw(every, count, f"arithmetic prompts {split} {seed}", f"{split} prompts", _fewer(max_digit))
    return [
        {
            "sample_id": f"arithmetic-{split}-{a}+{b}-{template}",
            "domain": "math",
            "task_type": "math",
            "benchmark": "arithmetic",
            "messages": [{"role": "user", "content": ask((a, b, template))}],
            "answers": [str(a + b)],
        }
        for a, b, template in asked
    ]


def questions(split: Split, max_digit: int) -> list[Question]:
    """Every question of a split, in a fixed order."""
    numbers = summands(max_digit)
    return [
        (a, b, template)
        for a, b in itertools.product(numbers, repeat=2)
        if is_held_out(a, b) == (split == "valid")
        for template in range(len(TEMPLATES))
    ]


def ask(question: Question) -> str:
    a, b, template = question
    return TEMPLATES[template].format(f"{a}+{b}")


def summands(max_digit: int) -> list[int]:
    """Two-digit numbers whose digits are at most `max_digit`, ascending. Raises ZgcmError."""
    if not 1 <= max_digit <= 9:
        raise ZgcmError(
            "The arithmetic generator needs a digit", where="max_digit", found=str(max_digit),
            expected="1 to 9",
        )  # fmt: skip
    return [10 * tens + units for tens in range(1, max_digit + 1) for units in range(max_digit + 1)]


def _line(rng: random.Random, numbers: list[int], max_digit: int) -> str:
    """One sum in five of two digits, one of two digits and a carry, three of two numbers with the working."""
    kind, a, b = rng.random(), rng.randint(0, max_digit), rng.randint(0, max_digit)
    if kind < 0.2:
        return f"{a}+{b}={a + b}"
    if kind < 0.4:
        return f"{a}+{b}+1={a + b + 1}"
    while True:
        a, b = rng.choice(numbers), rng.choice(numbers)
        if not is_held_out(a, b):
            return f"{a}+{b}: {working(a, b)}, {a + b}"


def _fewer(max_digit: int) -> str:
    return f"ask for fewer, or raise max_digit, {max_digit}, in the recipe"
