"""How many steps each stage takes, by the trainer's own arithmetic, for views that must not wait for data."""

from zgcm.config.recipe import Recipe
from zgcm.config.rl import RLStage
from zgcm.config.stages import AdoptedStage
from zgcm.io import read_json
from zgcm.layout import Layout
from zgcm.train import spikes
from zgcm.train.arguments import Plan, plan


def schedule(recipe: Recipe, layout: Layout, name: str) -> Plan | None:
    """Iterations and save interval of a stage, counted as Megatron counts: over the stages it continues, too.

    None for RL and adopted stages, and for SFT while neither its packed data nor the recipe's guards tell.
    """
    stage = recipe.stages[name]
    if isinstance(stage, RLStage | AdoptedStage):
        return None
    promised = stage.expected_train_tokens and stage.expected_train_records
    packed = all(layout.dataset(mix).is_file() for mix in stage.mix)
    if stage.kind == "sft" and not promised and not packed:
        return None
    return plan(recipe, layout, name)


def steps(recipe: Recipe, layout: Layout, name: str) -> int | None:
    """Optimizer steps that a stage itself takes: what it continues from is not counted."""
    stage = recipe.stages[name]
    if isinstance(stage, AdoptedStage):
        return 0
    if isinstance(stage, RLStage):
        return stage.steps
    length = schedule(recipe, layout, name)
    return None if length is None else length.iterations - first_iteration(recipe, layout, name)


def first_iteration(recipe: Recipe, layout: Layout, name: str) -> int:
    """The iteration a stage starts from: 0, or the end of the stage that it continues."""
    stage = recipe.stages[name]
    if isinstance(stage, RLStage | AdoptedStage) or not stage.continues:
        return 0
    if isinstance(recipe.stages[str(stage.init)], AdoptedStage):
        done = layout.done(str(stage.init))
        return read_json(done)["iteration"] if done.is_file() else 0
    before = schedule(recipe, layout, str(stage.init))
    return before.iterations if before else 0


def saves(recipe: Recipe, layout: Layout, name: str) -> list[int] | None:
    """Iterations at which a stage saves: multiples of its interval, and its end."""
    length = schedule(recipe, layout, name)
    if length is None:
        return None
    first, interval = first_iteration(recipe, layout, name), length.save_interval
    return [*range(first - first % interval + interval, length.iterations, interval), length.iterations]


def checkpoints_kept(recipe: Recipe, layout: Layout, name: str) -> int | None:
    """Complete checkpoints at the end: the recent ones, every N-th if the recipe says so, and the one
    that a loss spike could send the run back to (zgcm.train.checkpoints.prune)."""
    saved = saves(recipe, layout, name)
    if saved is None:
        return None
    stage = recipe.train_stages()[name]
    keep, reach = stage.checkpoints, spikes.reach(stage.spikes)
    before = [it for it in saved if it <= saved[-1] + 1 - reach]
    for_good = [it for it in saved if keep.keep_every and it % keep.keep_every == 0]
    return len({*saved[-keep.keep_recent :], *before[-1:], *for_good})
