"""Which steps a record of a stage and category passes, in which order, and with which settings."""

from zgcm.config.corpus import Category, GovernanceStage, Source
from zgcm.config.profiles import find_profile
from zgcm.config.settings import setting_defaults
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
    web,
)

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


def cleaning_settings(source: Source) -> Settings:
    """What the steps of a source read: the defaults of its further settings under the recipe's values, which
    were checked when the recipe was loaded, and the keys of its `cleaning`."""
    cleaning = source.cleaning
    given = cleaning.model_dump(exclude={"settings"})
    policies = cleaning.quality_policies.items()  # an empty policy is none: the next one in the order holds
    given["quality_policies"] = {
        name: policy.model_dump() for name, policy in policies if policy.model_fields_set
    }
    return {**setting_defaults(source), **given, **cleaning.settings}
