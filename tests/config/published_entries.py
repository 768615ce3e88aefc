"""How a published variable relates to the recipe; conversions and reasons that many variables share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from zgcm.config.plan import final_iteration, stage_plan
from zgcm.config.recipe import Recipe
from zgcm.config.stages import TrainStage


@dataclass(frozen=True)
class Key:
    path: str
    convert: Callable[[Any], Any] = lambda value: value


@dataclass(frozen=True)
class Derived:
    compute: Callable[[Recipe, str], Any]


@dataclass(frozen=True)
class NoKey:
    reason: str


Entry = Key | Derived | NoKey

PATHS = NoKey(
    "a path of the machine; the layout of results/ is fixed and inputs are declared in the workflow"
)
ENVIRONMENT = NoKey(
    "environment of the process; set by the launcher and the environment files, decides no result"
)
RENDEZVOUS = NoKey("found by scripts/launch.sh from the scheduler's node list")
NAME = NoKey("a label; run directories are named by run_id")
ROPE = NoKey("the only position embedding the architecture has")
ROPE_FUSION = NoKey("always off: the fused kernel cannot split queries, gate, keys and values")
RERUN = NoKey("always disabled: a failed step stops the run, which resumes from its checkpoint")
MAX_POSITIONS = Key("stages.{stage}.seq_length")
INTERPOLATED = NoKey("repeats another key of the same file")
UNUSED_FEATURE = NoKey(
    "a feature of the published framework that the recipe leaves off; this learner has none"
)
SWANLAB = NoKey("off, as published; a stage's `trackers` switches it on")


def flag(value: Any) -> bool:
    return bool(int(value))


def optional(value: Any) -> Any:
    return None if value in ("", None) else value


def window(value: str) -> int:
    """Megatron's `127,0` counts the tokens to the left, the recipe counts the token itself too."""
    left, right = map(int, value.split(","))
    assert right == 0
    return left + 1


def env_default(value: str) -> int:
    """`${oc.env:NAME,153}` -> 153"""
    return int(value.rpartition(",")[2].rstrip("}"))


def start_iteration(recipe: Recipe, stage: str) -> int | None:
    """Last iteration of the stage that this one starts from."""
    before = recipe.stages[str(recipe.stages[stage].init)]
    assert isinstance(before, TrainStage)
    return final_iteration(before)


def start_samples(recipe: Recipe, stage: str) -> int | None:
    return stage_plan(recipe, str(recipe.stages[stage].init)).samples


def keys(prefix: str, names: dict[str, str], convert: Callable[[Any], Any] = lambda value: value) -> dict:
    """Many variables that stand as they are under one section."""
    return {variable: Key(f"{prefix}.{name}", convert) for variable, name in names.items()}


def same(entry: Entry, *variables: str) -> dict[str, Entry]:
    return dict.fromkeys(variables, entry)


OURS = "stages.{stage}"
