"""Which steps a record of a stage and category passes, in which order (fact sheet 1.4)."""

import difflib
from typing import Any

from zgcm.config.corpus import Category, Cleaning, GovernanceStage
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
DEFAULT_SETTINGS: dict[str, Any] = {
    key: value
    for module in (common, sensitive, code, web, agentic, instruction, math, reasoning, pretrain_sources)
    for key, value in module.SETTINGS.items()
}


def step_order(stage: GovernanceStage, category: Category) -> list[Step]:
    """Pretraining families run whole before the common prefix. Everywhere else the category's first step,
    which finds the text, comes first, and its checks follow the prefix, so they see normalised text."""
    if stage == "pretrain" and category in PRETRAIN_FAMILIES:
        return [*PRETRAIN_FAMILIES[category], *common.PREFIX, *common.SUFFIX]
    steps = CATEGORY_STEPS[category]
    order = [*steps[:1], *common.PREFIX, *steps[1:], *common.SUFFIX]
    return [*posttrain.STEPS, *order] if stage == "posttrain" else order


def cleaning_settings(cleaning: Cleaning, where: str) -> Settings:
    """Defaults of all steps under the recipe's values. Raises ZgcmError for a key that no step reads."""
    given = cleaning.model_dump(exclude={"settings"})
    for key in cleaning.settings:
        if key in DEFAULT_SETTINGS and key not in given:
            continue
        near = difflib.get_close_matches(key, DEFAULT_SETTINGS, n=1)
        raise ZgcmError(
            "No cleaning step reads this setting" if key not in given else "This setting has its own key",
            where=f"{where}.cleaning.settings.{key}",
            expected=", ".join(sorted(DEFAULT_SETTINGS.keys() - given.keys())),
            hint=f"write {where}.cleaning.{key}"
            if key in given
            else f"did you mean {near[0]}?"
            if near
            else "",
        )
    return {**DEFAULT_SETTINGS, **given, **cleaning.settings}
