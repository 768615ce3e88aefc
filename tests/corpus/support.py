"""Small recipes around one source, and one sample through the steps of its stage and category."""

from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from zgcm.config.corpus import Cleaning, FileSource
from zgcm.config.load import validate_recipe
from zgcm.config.profiles import find_profile
from zgcm.config.recipe import Recipe
from zgcm.corpus.order import cleaning_settings, step_order
from zgcm.corpus.pipeline import run_steps
from zgcm.corpus.sample import Sample

Data = dict[str, Any]
TINY = yaml.safe_load((Path(__file__).parents[2] / "config" / "tiny.yaml").read_text())


def recipe_with(source: Data, name: str = "mine") -> Recipe:
    """The tiny recipe plus one source."""
    return validate_recipe({**TINY, "sources": {**TINY["sources"], name: source}}, "test")


def clean_one(
    stage: Any,
    category: Any,
    data: dict[str, Any],
    cleaning: dict[str, Any] | None = None,
    profile: str | None = None,
) -> Sample:
    """`data` after all steps; it gets a source when it names none."""
    steps = step_order(stage, category, profile)
    source = FileSource(
        kind="files", files=["x.jsonl"], stage=stage, category=category, profile=profile,
        cleaning=Cleaning(**cleaning or {}),
    )  # fmt: skip
    settings = cleaning_settings(source)
    sample = Sample("test", "1", stage, category, {"source": "here", **data})
    (done,) = run_steps([sample], steps, settings, Counter())
    return done


def outcome(stage: Any, category: Any, data: Data, cleaning: Data | None = None) -> tuple[str, list[str]]:
    """Decision and reasons after all steps."""
    sample = clean_one(stage, category, data, cleaning)
    return sample.decision, sample.reasons


def profiled(profile: str, data: Data, settings: Data | None = None) -> Sample:
    """`data` after the steps of a registered profile and those of its first stage and category."""
    found = find_profile(profile)
    return clean_one(found.stages[0], found.categories[0], data, {"settings": settings or {}}, profile)


def judged(profile: str, data: Data, settings: Data | None = None) -> tuple[str, list[str]]:
    sample = profiled(profile, data, settings)
    return sample.decision, sample.reasons
