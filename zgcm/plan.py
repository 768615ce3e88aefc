"""How long each stage is, from the recipe, and for SFT from its packed data (fact sheet 2.2 and 5.3)."""

from zgcm.config.recipe import Recipe
from zgcm.config.rl import RLStage
from zgcm.io import read_json
from zgcm.layout import Layout


def cumulative_iterations(recipe: Recipe, layout: Layout, name: str) -> int | None:
    """Iterations at the end of a stage, as Megatron counts; None while SFT's data is not packed yet.

    Samples give samples // global_batch_size; SFT gives floor(tokens x epochs / (sequence x batch)), with the
    tokens of dataset.json, or of the recipe's identity guard while there is no data.
    """
    stage = recipe.stages[name]
    if isinstance(stage, RLStage):
        return stage.steps
    schedule = stage.schedule
    if schedule.train_iters is not None:
        return schedule.train_iters
    if schedule.train_samples is not None:
        return schedule.train_samples // stage.global_batch_size
    tokens = packed_tokens(recipe, layout, name)
    if tokens is None:
        return None
    return tokens * (schedule.epochs or 1) // (stage.seq_length * stage.global_batch_size)


def packed_tokens(recipe: Recipe, layout: Layout, name: str) -> int | None:
    stage = recipe.train_stages()[name]
    paths = [layout.dataset(mix) for mix in stage.mix]
    if all(path.is_file() for path in paths):
        return sum(read_json(path)["train_tokens"] for path in paths)
    return stage.expected_train_tokens


def steps(recipe: Recipe, layout: Layout, name: str) -> int | None:
    """Optimizer steps that a stage itself takes: what it continues from is not counted."""
    total = cumulative_iterations(recipe, layout, name)
    return None if total is None else total - first_iteration(recipe, layout, name)


def first_iteration(recipe: Recipe, layout: Layout, name: str) -> int:
    """The iteration a stage starts from: 0, or the end of the stage that it continues."""
    stage = recipe.stages[name]
    if isinstance(stage, RLStage) or not stage.continues:
        return 0
    return cumulative_iterations(recipe, layout, str(stage.init)) or 0
