"""Which steps a record of a stage and category passes, in which order, and with which settings."""

import difflib
from typing import Any

from zgcm.config.corpus import Category, Cleaning, GovernanceStage
from zgcm.config.profiles import Profile, find_profile
from zgcm.corpus.pipeline import Settings, Step
from zgcm.corpus.steps import (
    agentic,
    code,
    common,
    instruction,
    math,
    posttrain,
    pretrain_sources,
    reasoning,
    sensitive,
    web,
)
from zgcm.errors import ZgcmError

CATEGORY_STEPS: dict[Category, list[Step]] = {
    "code": code.STEPS,
    "web": web.STEPS,
    "agentic": agentic.STEPS,
    "instruction": instruction.STEPS,
    "math": math.STEPS,
    "reasoning": reasoning.STEPS,
    "pdf_ocr": [],
    "general_text": [],
}
PRETRAIN_FAMILIES: dict[Category, list[Step]] = {
    "code": code.STEPS,
    "pdf_ocr": pretrain_sources.PDF_OCR_STEPS,
    "general_text": pretrain_sources.GENERAL_TEXT_STEPS,
}
MODULES = (common, sensitive, code, web, agentic, instruction, math, reasoning, pretrain_sources)


def step_order(stage: GovernanceStage, category: Category, profile: str | None = None) -> list[Step]:
    """The steps of a source, those of its profile first. Raises ZgcmError when there is no such profile."""
    first = find_profile(profile).steps if profile is not None else ()
    return [*first, *_category_order(stage, category)]


def _category_order(stage: GovernanceStage, category: Category) -> list[Step]:
    """Pretraining families run whole before the common prefix. Everywhere else the category's first step,
    which finds the text, comes first, and its checks follow the prefix, so they see normalised text."""
    if stage == "pretrain" and category in PRETRAIN_FAMILIES:
        return [*PRETRAIN_FAMILIES[category], *common.PREFIX, *common.SUFFIX]
    steps = CATEGORY_STEPS[category]
    order = [*steps[:1], *common.PREFIX, *steps[1:], *common.SUFFIX]
    return [*posttrain.STEPS, *order] if stage == "posttrain" else order


def cleaning_settings(
    cleaning: Cleaning, where: str, steps: list[Step], profile: str | None = None
) -> Settings:
    """Defaults of a source's steps under the recipe's values. Raises ZgcmError for a key that none of them
    reads: a misspelt setting, or one of another category or profile, would be silently without effect."""
    defaults = _defaults(steps, find_profile(profile) if profile is not None else None)
    given = cleaning.model_dump(exclude={"settings"})
    policies = cleaning.quality_policies.items()  # an empty policy is none: the next one in the order holds
    given["quality_policies"] = {
        name: policy.model_dump() for name, policy in policies if policy.model_fields_set
    }
    for key, value in cleaning.settings.items():
        if key in given:
            raise ZgcmError(
                "This setting has its own key", where=f"{where}.cleaning.settings.{key}",
                hint=f"write {where}.cleaning.{key}",
            )  # fmt: skip
        if key not in defaults:
            near = difflib.get_close_matches(key, defaults, n=1)
            raise ZgcmError(
                "No step of this source reads this setting", where=f"{where}.cleaning.settings.{key}",
                expected=", ".join(sorted(defaults.keys() - given.keys())) or "no settings",
                hint=f"did you mean {near[0]}?" if near else "",
            )  # fmt: skip
        if not _same_kind(value, defaults[key]):
            raise ZgcmError(
                "A setting is of another kind than its default", where=f"{where}.cleaning.settings.{key}",
                found=repr(value), expected=f"something like {defaults[key]!r}",
            )  # fmt: skip
    return {**defaults, **given, **cleaning.settings}


def _same_kind(value: Any, default: Any) -> bool:
    if isinstance(default, int | float) and not isinstance(default, bool):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return default is None or isinstance(value, type(default))


def _defaults(steps: list[Step], profile: Profile | None) -> dict[str, Any]:
    """The settings of the modules that the steps come from, and those that the profile declares."""
    used = {step.__module__ for step in steps}
    modules = [module.SETTINGS for module in MODULES if module.__name__ in used]
    return {key: value for settings in modules for key, value in settings.items()} | dict(
        profile.settings if profile else {}
    )
