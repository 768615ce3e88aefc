"""A stage whose prompts are chosen by pass rates, and an engine that answers by the request's seed alone."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bandit import prepare, prompt_rows

from zgcm.cli import app, verbs  # noqa: F401 - registers the verbs
from zgcm.config.load import load_recipe
from zgcm.config.recipe import Recipe
from zgcm.config.rl import Sampling
from zgcm.layout import Layout, shard_name
from zgcm.rl import difficulty
from zgcm.rl.trajectory import Request, Response
from zgcm.tokens.tokenizer import read_tokenizer

SAMPLES = 4


class FakeEngine:
    """The answer is right in `seed % 5` of four responses; one in a while is cut off."""

    asked: Counter[int] = Counter()

    def __init__(self, policy: Path, *_: Any, **__: Any) -> None:
        self.tokenizer = read_tokenizer(policy)

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Response]]:
        type(self).asked.update(request.seed for request in requests)
        return [
            [self.answer(request.seed, place) for place in range(sampling.n_samples)] for request in requests
        ]

    def answer(self, seed: int, place: int) -> Response:
        if place == 3 and seed % 7 == 0:
            return Response([9] * 24, [0.0] * 24, "length", 0)
        digit = 7 if place < seed % 5 else 2
        ids = self.tokenizer.encode(f"w</think>{'w' * (seed % 3)}\\boxed{{{digit}}}<|endoftext|>").ids
        return Response(ids, [0.0] * len(ids), "stop", 0)


def recipe_of(root: Path, train: int = 40, **settings: Any) -> Recipe:
    given = {"samples": SAMPLES, "max_pass_rate": 0.75} | settings
    prepare(root, difficulty=given, steps=4)
    rows = prompt_rows("train", train)
    (root / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return load_recipe([root / "recipe.yaml"])


def measured(root: Path, recipe: Recipe, shards: int) -> Layout:
    layout = Layout(root / "results")
    for index in reversed(range(shards)):
        difficulty.measure_shard(recipe, layout, "rl_math", shard_name(index))
    return layout


def common(root: Path) -> list[str]:
    return ["--recipe", str(root / "recipe.yaml"), "--directory", str(root)]


def call_here(*arguments: str) -> None:
    app(list(arguments), standalone_mode=False)
