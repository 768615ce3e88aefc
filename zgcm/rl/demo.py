"""Prompts of kind `demo`: generated rows of the stage's domain, and the tests of their programs."""

from typing import Any, Literal

from zgcm.config.rl import DemoPrompts, RLStage
from zgcm.corpus import arithmetic, tasks
from zgcm.rl.prompts import DOMAIN_FIELDS, MIXED

Split = Literal["train", "valid"]
Row = dict[str, Any]


def rows(stage: RLStage, split: Split) -> list[Row]:
    """As many as the recipe asks for; of a mixed stage a third of each domain, mathematics first."""
    return [row for made, _ in _made(stage, split) for row in made]


def tests(stage: RLStage) -> dict[str, bytes]:
    """Tests of the code rows of both splits, by the SHA-256 that rows name them with."""
    made = [*_made(stage, "train"), *_made(stage, "valid")]
    return {name: packed for _, found in made for name, packed in found.items()}


def _made(stage: RLStage, split: Split) -> list[tuple[list[Row], dict[str, bytes]]]:
    source = stage.prompts
    assert isinstance(source, DemoPrompts)
    count = getattr(source, split)
    if stage.domain != MIXED:
        return [_of_domain(source, stage.domain, split, count)]
    share, more = divmod(count, len(DOMAIN_FIELDS))
    return [
        _of_domain(source, domain, split, share + (place < more))
        for place, domain in enumerate(DOMAIN_FIELDS)
    ]


def _of_domain(
    source: DemoPrompts, domain: str, split: Split, count: int
) -> tuple[list[Row], dict[str, bytes]]:
    if domain == "code":
        return tasks.code_prompts(split, count, source.seed)
    if domain == "if":
        return tasks.instruction_prompts(split, count, source.seed), {}
    return arithmetic.prompts(split, count, source.seed, source.max_digit), {}
