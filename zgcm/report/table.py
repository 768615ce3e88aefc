"""The stage table: what each stage did. `zgcm run` ends with it and the report shows it."""

from pathlib import Path
from typing import Any

from zgcm import numbers
from zgcm.config.recipe import Recipe
from zgcm.config.rl import RLStage
from zgcm.config.stages import AdoptedStage
from zgcm.layout import Layout
from zgcm.rundir import runs
from zgcm.status import stage_states
from zgcm.terminal import aligned
from zgcm.train import lengths

HEADINGS = ("stage", "kind", "steps", "tokens", "loss or reward", "time", "state")


def stage_table(recipe: Recipe, layout: Layout) -> list[dict[str, Any]]:
    """One row a stage in the recipe's order; what is not there yet is None.

    Keys: stage, kind, state, detail, steps (taken by this stage itself), planned_steps, tokens (seen by this
    stage; RL: sampled), first_loss, last_loss (nats a token), reward_first, reward_last (share of right
    answers on held-out prompts), seconds (wall time of its run, all attempts).
    """
    return [stage_row(recipe, layout, status) for status in stage_states(recipe, layout)]


def stage_row(recipe: Recipe, layout: Layout, status: dict[str, Any]) -> dict[str, Any]:
    name = status["stage"]
    done = runs.read_done(layout, name)
    run = runs.current_run(layout, name)
    row: dict[str, Any] = {
        **{key: status[key] for key in ("stage", "kind", "state", "detail", "run_id")},
        "steps": status["step"] if run else None,
        "planned_steps": status["steps"],
        **dict.fromkeys(("tokens", "first_loss", "last_loss", "reward_first", "reward_last", "seconds")),
    }
    if run is None:
        return row
    row["seconds"] = runs.seconds(run)
    if isinstance(recipe.stages[name], AdoptedStage):
        return row
    if isinstance(recipe.stages[name], RLStage):
        row["tokens"] = sampled_tokens(run)
        return row | (rl_facts(done) if done else {})
    return row | (
        train_facts(recipe, layout, name, done) if done else train_so_far(recipe, layout, name, run)
    )


def rl_facts(done: dict[str, Any]) -> dict[str, Any]:
    """Before and after are the first and last evaluation; `done`'s own reward_* are of training rollouts."""
    first, last = done["evaluations"][0], done["evaluations"][-1]
    return {
        "steps": done["steps"],
        "reward_first": first["mean_raw_reward"],
        "reward_last": last["mean_raw_reward"],
    }


def sampled_tokens(run: Path) -> int:
    """Response tokens of all training rollouts."""
    return sum(round(row["mean_tokens"] * row["responses"]) for row in runs.read_lines(run / "reward.jsonl"))


def train_facts(recipe: Recipe, layout: Layout, name: str, done: dict[str, Any]) -> dict[str, Any]:
    """Steps and tokens of the stage alone: `done` counts those it continues from, too."""
    return {
        "steps": done["iteration"] - lengths.first_iteration(recipe, layout, name),
        "tokens": done["consumed_tokens"] - first_tokens(recipe, layout, name),
        "first_loss": done["first_loss"],
        "last_loss": done["final_loss"],
    }


def train_so_far(recipe: Recipe, layout: Layout, name: str, run: Path) -> dict[str, Any]:
    first = next(runs.read_lines(run / "loss.jsonl"), None)
    last = runs.last_line(run / "loss.jsonl")
    if first is None or last is None:
        return {}
    return {
        "tokens": last["consumed_tokens"] - first_tokens(recipe, layout, name),
        "first_loss": first["loss"],
        "last_loss": last["loss"],
    }


def first_tokens(recipe: Recipe, layout: Layout, name: str) -> int:
    """Tokens already counted when a stage starts: those of the stage it continues."""
    stage = recipe.train_stages()[name]
    if not stage.continues:
        return 0
    done = runs.read_done(layout, str(stage.init))
    if done is None:
        return 0
    adopted = (
        done["consumed_samples"] * stage.seq_length
    )  # of adopted weights samples are known, not their length
    return done.get("consumed_tokens", adopted)


def words(row: dict[str, Any]) -> tuple[str, ...]:
    """A row as texts, in the order of HEADINGS."""
    if row["reward_last"] is not None:
        change = numbers.arrow(numbers.percent(row["reward_first"]), numbers.percent(row["reward_last"]))
    elif row["last_loss"] is not None:
        change = numbers.arrow(numbers.loss(row["first_loss"]), numbers.loss(row["last_loss"]))
    else:
        change = "–"
    steps, planned = row["steps"], row["planned_steps"]
    done = "–" if steps is None else f"{steps:,}"
    part = f"{done} of {planned:,}" if planned is not None and steps != planned else done
    tokens, time = numbers.count(row["tokens"]), numbers.duration(row["seconds"])
    return row["stage"], row["kind"], part, tokens, change, time, row["state"]


def render(rows: list[dict[str, Any]]) -> str:
    """The table as aligned text, for a terminal."""
    return "\n".join(aligned([HEADINGS, *(words(row) for row in rows)], right={2, 3, 5}))
