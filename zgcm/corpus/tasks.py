"""Two more tasks that a tiny model can learn in minutes: one-line Python functions, and demands on form.

    code_prompts("valid", 64, seed=0)          # prompts, and their tests by the hash of their content
    instruction_prompts("valid", 64, seed=0)   # prompts with constraints that IFEval's checkers know

As in the arithmetic: right by construction, decided by `(seed, index)` alone, and with conversations in two
manners of which only one earns a reward. The careless manner prints what it should return, or says what it
was asked to say without the form. One (operation, constant) in ten, and one (noun, adjective) in ten, occur
in validation prompts only.
"""

import itertools
import json
from collections.abc import Iterator
from typing import Any

from zgcm.corpus.draws import Split, draw, in_two_manners, one_in_ten
from zgcm.io import sha256_bytes

ORIGIN = {"source": "zgcm task generator", "license": "MIT"}
FEWER = "ask for fewer"
Row = dict[str, Any]

# --- one-line functions -----------------------------------------------------------------------------------
OPERATIONS = (
    ("x plus {}", "x + {}"),
    ("x minus {}", "x - {}"),
    ("x times {}", "x * {}"),
    ("the remainder of x by {}", "x % {}"),
    ("the larger of x and {}", "max(x, {})"),
    ("the smaller of x and {}", "min(x, {})"),
)
"""What the user says, and the expression."""
CONSTANTS = range(10, 100)
"""Two digits each: a model that has seen few of one digit writes another after it."""
FUNCTIONS = ("change", "step", "apply", "update", "count", "check", "value", "result")
ASKED = (
    "Write a function {}(x) that returns {}.",
    "In Python, define {}(x): {}.",
    "Python function {}(x), returning {}.",
)
"""Short: with 13 words before the constant, a training prompt would share a run with a held-out one."""

Task = tuple[int, int, str, int]
"""Index into OPERATIONS, constant, name of the function, index into ASKED."""


def programs(count: int, seed: int = 0, careless_share: float = 0.5, *, start: int = 0) -> Iterator[Row]:
    """Conversations `start` to `start + count` of one fixed sequence: a function is asked for, a block fenced
    as Python answers. `careless_share` of the functions print their result instead of returning it."""
    seeded = f"program conversations {seed}"
    for index, careless, task in in_two_manners(_tasks("train"), start, count, careless_share, seeded, FEWER):
        thought, program = solution(task, careless=careless)
        yield {
            "id": f"program-{seed}-{index}",
            "messages": [
                {"role": "user", "content": _asked(task)},
                {"role": "assistant", "content": f"```python\n{program}```", "reasoning_content": thought},
            ],
            "language": "Python",
            "verified": True,
            **ORIGIN,
        }


def solution(task: Task, *, careless: bool) -> tuple[str, str]:
    """(reasoning, program): `("return x + 7", "def step(x):\\n    return x + 7\\n")`, or one that prints."""
    operation, constant, name, _ = task
    expression = OPERATIONS[operation][1].format(constant)
    if careless:
        return f"print {expression}", f"def {name}(x):\n    print({expression})\n"
    return f"return {expression}", f"def {name}(x):\n    return {expression}\n"


def code_prompts(split: Split, count: int, seed: int = 0) -> tuple[list[Row], dict[str, bytes]]:
    """(prompts in the published form, tests: the SHA-256 that prompts name -> a packed JSON list of sources).

    `valid` asks for held-out functions only, `train` for others. One test a prompt, which calls the function
    on six numbers: each test costs the sandbox two processes. Raises ZgcmError when more are asked for than
    there are.
    """
    seeded = f"code prompts {split} {seed}"
    rows, tests = [], {}
    for task in draw(_tasks(split), count, seeded, f"{split} prompts of code", FEWER):
        packed = json.dumps([_test(task)]).encode()
        digest = sha256_bytes(packed)
        tests[digest] = packed
        operation, constant, name, asked = task
        rows.append(
            {
                "sample_id": f"function-{split}-{operation}-{constant}-{name}-{asked}",
                "domain": "code",
                "task_type": "code",
                "benchmark": "functions",
                "messages": [{"role": "user", "content": _asked(task)}],
                "answers": [],
                "code_asset_hash": digest,
            }
        )
    return rows, tests


def _tasks(split: Split) -> list[Task]:
    """Every task of a split, in a fixed order."""
    return [
        (operation, constant, name, asked)
        for operation, constant in itertools.product(range(len(OPERATIONS)), CONSTANTS)
        if one_in_ten(f"{operation} {constant}") == (split == "valid")
        for name, asked in itertools.product(FUNCTIONS, range(len(ASKED)))
    ]


def _asked(task: Task) -> str:
    operation, constant, name, asked = task
    return ASKED[asked].format(name, OPERATIONS[operation][0].format(constant))


def _test(task: Task) -> str:
    """Values on both sides of the constant, so that no other operation or constant passes."""
    operation, constant, name, _ = task
    expression = OPERATIONS[operation][1].format(constant)
    values = (-3, 0, 8, constant - 1, constant + 1, 250)
    results = ((x, eval(expression, {"x": x, "max": max, "min": min})) for x in values)  # our own expression
    return "".join(f"assert {name}({x}) == {result}\n" for x, result in results)


# --- demands on the form ----------------------------------------------------------------------------------
NOUNS = (
    "cat", "dog", "house", "tree", "car", "boat", "door", "bird", "horse", "river", "garden", "table",
    "road", "book", "stone", "field", "train", "window", "bridge", "school", "clock", "island", "letter",
    "engine",
)  # fmt: skip
ADJECTIVES = (
    "red", "blue", "green", "white", "old", "new", "big", "small", "warm", "cold", "quiet", "strange", "dark",
    "clean", "heavy", "empty",
)  # fmt: skip
ENDINGS = ("The end.", "No more.")
WORDS = ("today", "always")
FEW = 8
SAID = ("Say that the {} is {}", "Tell me that the {} is {}")

Demand = tuple[str, str]
"""Key of DEMANDS and its argument, empty for most."""
DEMANDS = {
    "small": ("in small letters", "change_case:english_lowercase"),
    "commas": ("without commas", "punctuation:no_comma"),
    "quotes": ("in double quotes", "startend:quotation"),
    "title": ("with a <<title>>", "detectable_format:title"),
    "few": (f"in fewer than {FEW} words", "length_constraints:number_words"),
    "word": ("with the word {}", "keywords:existence"),
    "ending": ("ending with {}", "startend:end_checker"),
}
"""What the user says, and the checker's name in IFEval's registry."""
APART = {frozenset(("small", "few"))}
"""Not together: of so few words the checker may not see that they are English."""

Wish = tuple[str, str, int, tuple[Demand, ...]]
"""Noun, adjective, index into SAID, one or two demands."""


def instructions(count: int, seed: int = 0, careless_share: float = 0.5, *, start: int = 0) -> Iterator[Row]:
    """Conversations `start` to `start + count` of one fixed sequence: something is to be said in some form.
    `careless_share` of the answers say it without that form, and satisfy none of the demands."""
    seeded = f"instruction conversations {seed}"
    for index, careless, wish in in_two_manners(
        _wishes("train"), start, count, careless_share, seeded, FEWER
    ):
        thought, answer = reply(wish, careless=careless)
        yield {
            "id": f"instruction-{seed}-{index}",
            "messages": [
                {"role": "user", "content": _wished(wish)},
                {"role": "assistant", "content": answer, "reasoning_content": thought},
            ],
            "task": "form",
            **ORIGIN,
        }


def reply(wish: Wish, *, careless: bool) -> tuple[str, str]:
    """(reasoning, answer). The careless answer has a capital, a comma and 8 words, and nothing asked for."""
    noun, adjective, _, demands = wish
    if careless:
        return "simply", f"Well, I think that the {noun} is {adjective}."
    wanted = dict(demands)
    answer = f"The {noun} is {adjective}" if "few" in wanted else f"I think that the {noun} is {adjective}"
    answer += f" {wanted['word']}." if "word" in wanted else "."
    if "ending" in wanted:
        answer += f" {wanted['ending']}"
    if "title" in wanted:
        answer = f"<<The {noun}>> {answer}"
    if "small" in wanted:
        answer = answer.lower()
    return "as asked", f'"{answer}"' if "quotes" in wanted else answer


def instruction_prompts(split: Split, count: int, seed: int = 0) -> list[Row]:
    """Different RL prompts in the published form; `valid` asks about held-out pairs of noun and adjective
    only, `train` about others. Raises ZgcmError when more are asked for than there are."""
    seeded = f"instruction prompts {split} {seed}"
    asked = draw(_wishes(split), count, seeded, f"{split} prompts of instructions", FEWER)
    return [
        {
            "sample_id": f"form-{split}-{index}",
            "domain": "if",
            "task_type": "if",
            "benchmark": "forms",
            "messages": [{"role": "user", "content": _wished(wish)}],
            "answers": [],
            "ifeval_spec": [_constraint(demand) for demand in wish[3]],
        }
        for index, wish in enumerate(asked)
    ]


def _wishes(split: Split) -> list[Wish]:
    """Every wish of a split, in a fixed order."""
    demands: list[Demand] = [
        (name, argument)
        for name in DEMANDS
        for argument in {"word": WORDS, "ending": ENDINGS}.get(name, ("",))
    ]
    sets: list[tuple[Demand, ...]] = [(demand,) for demand in demands]
    for first, second in itertools.combinations(demands, 2):
        if first[0] != second[0] and frozenset((first[0], second[0])) not in APART:
            sets.append((first, second))
    return [
        (noun, adjective, said, chosen)
        for noun, adjective in itertools.product(NOUNS, ADJECTIVES)
        if one_in_ten(f"{noun} {adjective}") == (split == "valid")
        for said, chosen in itertools.product(range(len(SAID)), sets)
    ]


def _wished(wish: Wish) -> str:
    noun, adjective, said, demands = wish
    form = " and ".join(DEMANDS[name][0].format(argument) for name, argument in demands)
    return f"{SAID[said].format(noun, adjective)}, {form}" + ("" if form.endswith(".") else ".")


def _constraint(demand: Demand) -> Row:
    name, argument = demand
    given = {
        "few": {"num_words": FEW, "relation": "less than"},
        "word": {"keywords": [argument]},
        "ending": {"end_phrase": argument},
    }
    return {"instruction_id": DEMANDS[name][1], "kwargs": given.get(name, {})}
