"""The recipe: one YAML file that says everything a run's results depend on, and how to run it."""

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, model_validator

from zgcm.config.base import Section, execution
from zgcm.config.corpus import Mix, Source
from zgcm.config.crosscheck import KEEP_CONTRADICTIONS, problems, unknown_names
from zgcm.config.model import Model, Tokenizer
from zgcm.config.narrow import narrow
from zgcm.config.resources import StepResources
from zgcm.config.rl import RLStage
from zgcm.config.stages import AdoptedStage, TrainStage
from zgcm.errors import ZgcmError

Stage = Annotated[TrainStage | RLStage | AdoptedStage, Field(discriminator="kind")]
VERBS = {TrainStage: "train", AdoptedStage: "adopt", RLStage: "rl"}
"""The verb that makes a stage of each kind."""
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]


class Recipe(Section):
    """A whole recipe."""

    name: str = execution(pattern=r"^[a-z0-9][a-z0-9-]*$")
    """Stamps the results directory; another recipe's results are refused."""
    description: str = execution("")
    """One line for people."""
    model: Model
    """The architecture, the same in every stage."""
    tokenizer: Tokenizer
    """Trained here or brought along."""
    sources: dict[Name, Source]
    """Where raw text comes from and how it is cleaned."""
    mixes: dict[Name, Mix]
    """What the stages train on; a mix may exclude the documents of mixes above it."""
    stage_defaults: dict[Literal["pretrain", "sft", "rl"], dict[str, Any]] = execution({})
    """kind -> keys that its stages share; a stage's own keys win. Applied before
    validation, so it is no part of identity by itself."""
    stages: dict[Name, Stage]
    """What is trained or adopted, each stage after those above it."""
    only: list[Name] = execution([])
    """Stages to keep, in this order, with the adopted ones that they start from; other stages, and mixes and
    sources that no kept stage needs, are left out. Empty: all."""
    step_resources: StepResources = execution(StepResources())
    """What all other steps ask the scheduler for."""
    preflight: bool = execution(False)
    """Train only where `zgcm preflight` has passed, on the same kind of machine."""

    @model_validator(mode="before")
    @classmethod
    def _apply_stage_defaults(cls, data: Any) -> Any:
        if not isinstance(data, dict) or not isinstance(data.get("stages"), dict):
            return data
        shared = data.get("stage_defaults")
        shared = shared if isinstance(shared, dict) else {}
        stages = {name: _with_defaults(stage, shared) for name, stage in data["stages"].items()}
        return narrow({**data, "stages": stages})

    @model_validator(mode="after")
    def _no_contradiction(self, info: ValidationInfo) -> "Recipe":
        keep = info.context is not None and info.context.get(KEEP_CONTRADICTIONS)
        found = unknown_names(self) if keep else problems(self)
        if found:
            raise ValueError("\n".join(found))
        return self

    def stage_of[Kind: (TrainStage, AdoptedStage, RLStage)](
        self, kind: type[Kind], name: str, what: str
    ) -> Kind:
        """The stage of that name. Raises ZgcmError when it is of another kind; `what` says in words of which
        it should be: "megatron-core trains"."""
        stage = self.stages.get(name)
        if isinstance(stage, kind):
            return stage
        fit = [other for other, found in self.stages.items() if isinstance(found, kind)]
        verb = next((verb for other, verb in VERBS.items() if isinstance(stage, other)), None)
        raise ZgcmError(
            f"Not a stage that {what}",
            where=f"stages.{name}",
            found=stage.kind if stage else "no such stage",
            expected=f"one of {', '.join(fit)}" if fit else "this recipe has none",
            hint=f"this one: zgcm {verb} {name}" if verb else "",
        )

    def train_stages(self) -> dict[str, TrainStage]:
        return {name: stage for name, stage in self.stages.items() if isinstance(stage, TrainStage)}

    def adopted_stages(self) -> dict[str, AdoptedStage]:
        return {name: stage for name, stage in self.stages.items() if isinstance(stage, AdoptedStage)}

    def rl_stages(self) -> dict[str, RLStage]:
        return {name: stage for name, stage in self.stages.items() if isinstance(stage, RLStage)}


def _with_defaults(stage: Any, shared: dict[str, Any]) -> Any:
    """A stage's own keys over those of its kind; anything that is not a mapping is left for validation."""
    kind = stage.get("kind") if isinstance(stage, dict) else None
    defaults = shared.get(kind) if isinstance(kind, str) else None
    return deep_merge(defaults, stage) if isinstance(defaults, dict) else stage


def deep_merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Merge mappings key by key; anything else in `over` replaces. Snakemake merges overlays the same way."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = deep_merge(merged[key], value) if both else value
    return merged
