"""The recipe: one YAML file that says everything a run's results depend on, and how to run it."""

from typing import Annotated, Any

from pydantic import Field, model_validator

from zgcm.config.base import Section, execution
from zgcm.config.corpus import Mix, Source
from zgcm.config.model import Model, Tokenizer
from zgcm.config.rl import RLStage
from zgcm.config.stages import Resources, TrainStage

Stage = Annotated[TrainStage | RLStage, Field(discriminator="kind")]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]


class StepResources(Section):
    """What the steps that are not stages ask the scheduler for."""

    clean: Resources = execution(Resources())
    tokenizer: Resources = execution(Resources())
    index: Resources = execution(Resources())
    mix: Resources = execution(Resources())
    export: Resources = execution(Resources(mem_mb=4000))


class Recipe(Section):
    """A whole recipe."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    """Stamps the results directory; another recipe's results are refused."""
    description: str = execution("")
    model: Model
    tokenizer: Tokenizer
    sources: dict[Name, Source]
    mixes: dict[Name, Mix]
    stage_defaults: dict[str, dict[str, Any]] = execution({})
    """kind (pretrain, sft, rl) -> keys that its stages share; a stage's own keys win. Applied before
    validation, so it is no part of identity by itself."""
    stages: dict[Name, Stage]
    step_resources: StepResources = execution(StepResources())

    @model_validator(mode="before")
    @classmethod
    def _apply_stage_defaults(cls, data: Any) -> Any:
        if not isinstance(data, dict) or not isinstance(data.get("stages"), dict):
            return data
        shared = data.get("stage_defaults") or {}
        stages = {
            name: deep_merge(shared.get(stage.get("kind"), {}), stage) if isinstance(stage, dict) else stage
            for name, stage in data["stages"].items()
        }
        return {**data, "stages": stages}

    @model_validator(mode="after")
    def _names_resolve(self) -> "Recipe":
        def check(where: str, name: str, known: dict[str, Any] | list[str]) -> None:
            if name not in known:
                raise ValueError(f"{where}: unknown name {name!r}; known are {', '.join(known) or 'none'}")

        if self.tokenizer.kind == "train":
            for source in self.tokenizer.sources:
                check("tokenizer.sources", source, self.sources)
        earlier: list[str] = []
        for name, mix in self.mixes.items():
            for source in mix.sources:
                check(f"mixes.{name}.sources", source, self.sources)
            for other in mix.exclude:
                check(f"mixes.{name}.exclude (earlier mixes only)", other, earlier)
            earlier.append(name)
        before: list[str] = []
        for name, stage in self.stages.items():
            if stage.init is not None:
                check(f"stages.{name}.init (earlier stages only)", stage.init, before)
            if isinstance(stage, TrainStage):
                for mix_name in stage.mix:
                    check(f"stages.{name}.mix", mix_name, self.mixes)
                    wanted = "packed" if stage.kind == "sft" else "documents"
                    if self.mixes[mix_name].kind != wanted:
                        raise ValueError(f"stages.{name}.mix: {mix_name} is not a mix of kind {wanted}")
            before.append(name)
        return self

    def train_stages(self) -> dict[str, TrainStage]:
        return {name: stage for name, stage in self.stages.items() if isinstance(stage, TrainStage)}

    def rl_stages(self) -> dict[str, RLStage]:
        return {name: stage for name, stage in self.stages.items() if isinstance(stage, RLStage)}


def deep_merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Merge mappings key by key; anything else in `over` replaces. Snakemake merges overlays the same way."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = deep_merge(merged[key], value) if both else value
    return merged
