"""`cleaning.settings`: every setting that a step reads has a default, and no other is accepted."""

import inspect
import itertools
import re
from functools import cache
from pathlib import Path

import pytest
import yaml

from zgcm.config.corpus import CATEGORIES, STAGES, Cleaning, FileSource
from zgcm.config.load import validate_recipe
from zgcm.config.profiles import find_profile, registered
from zgcm.config.settings import setting_defaults, setting_problems
from zgcm.corpus.order import cleaning_settings, step_order
from zgcm.errors import ZgcmError

TINY = Path(__file__).parents[2] / "config" / "tiny.yaml"
READ = re.compile(r"""settings\[["'](\w+)["']\]""")


def source(stage="pretrain", category="pdf_ocr", profile=None, **cleaning):
    return FileSource(
        kind="files", files=["x.jsonl"], stage=stage, category=category, profile=profile,
        cleaning=Cleaning(**cleaning),
    )  # fmt: skip


@cache
def read_in(step):
    """Settings that a function itself reads by name, but for the keys of `cleaning`."""
    return {*READ.findall(inspect.getsource(step))} - {*Cleaning.model_fields}


def read_by(steps):
    return set().union(*map(read_in, steps))


def profiled(name):
    profile = find_profile(name)
    return source(profile.stages[0], profile.categories[0], name)


EVERY = [source(stage, category) for stage, category in itertools.product(STAGES, CATEGORIES)]


def test_every_setting_that_a_step_reads_has_a_default_and_every_default_a_reader():
    known = set()
    for one in [*EVERY, *map(profiled, registered())]:
        steps = step_order(one.stage, one.category, one.profile)
        assert read_by(steps) <= setting_defaults(one).keys(), one
        known |= read_by(steps)
    assert {"code_denied_path_parts", "pdf_min_chars", "olmocr_min_edu_score"} <= known
    for one in EVERY:
        assert setting_defaults(one).keys() <= read_by(step_order(one.stage, one.category)), one


def test_the_recipe_wins_over_the_defaults():
    settings = cleaning_settings(source(min_chars=3, settings={"pdf_min_chars": 5}))
    assert (settings["min_chars"], settings["pdf_min_chars"], settings["pdf_min_ocr_quality"]) == (3, 5, 0.0)
    given = {"settings": {"olmocr_min_edu_score": 1}}
    assert cleaning_settings(source(profile="olmocr", **given))["olmocr_min_edu_score"] == 1


@pytest.mark.parametrize(
    ("changed", "settings", "message"),
    [
        ({}, {"pdf_min_char": 5}, "pdf_min_char: no step .*; did you mean 'pdf_min_chars'"),
        ({}, {"min_char": 5}, "min_char: .*; did you mean the key cleaning.min_chars"),
        ({}, {"min_chars": 5}, "min_chars: it has a key of its own; write cleaning.min_chars"),
        ({}, {"web_boilerplate_limit": 5}, "web_boilerplate_limit: no step of this source reads"),
        ({}, {"pdf_min_chars": "5"}, "pdf_min_chars: found '5'; expected something like 32"),
        ({}, {"olmocr_min_edu_score": 1}, "olmocr_min_edu_score: no step of this source reads"),
        ({"stage": "midtrain"}, {"pdf_min_chars": 5}, "pdf_min_chars: no step .* allowed here: none"),
        ({"category": "general_text"}, {"pdf_min_chars": 5}, "pdf_min_chars: no step .* allowed here: none"),
    ],
)
def test_a_wrong_setting_is_refused_when_the_recipe_is_loaded(changed, settings, message):
    data = yaml.safe_load(TINY.read_text())
    data["sources"]["mine"] = {
        "kind": "files", "files": ["x.jsonl"], "stage": "pretrain", "category": "pdf_ocr", **changed,
        "cleaning": {"settings": settings},
    }  # fmt: skip
    with pytest.raises(ZgcmError, match=rf"sources\.mine\.cleaning\.settings\.{message}"):
        validate_recipe(data, "test")


def test_a_profile_that_is_none_is_one_problem_alone():
    assert not list(setting_problems(source(profile="nobody", settings={"x": 1})))
