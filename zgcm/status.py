"""What state each stage is in, from files alone: nothing is started, locked or changed.

    for row in stage_states(recipe, layout): print(row["stage"], row["state"], row["detail"])

States: `done`, `stale` (done, but the recipe has changed since; the keys are named), `running` (a live
process owns the run), `interrupted` (a run without a live owner; the same command resumes it), `stopped` (a
run that refuses further attempts, with its reason), `waiting` (nothing yet, or only another recipe's run).
"""

import statistics
import time
from pathlib import Path
from typing import Any

from zgcm import identity, numbers, reasons
from zgcm.config.recipe import Recipe
from zgcm.config.rl import RLStage
from zgcm.config.stages import AdoptedStage, TrainStage
from zgcm.layout import Layout, shard_name
from zgcm.rundir import owner, runs
from zgcm.rundir.evaluations import evaluations
from zgcm.slurm import queue
from zgcm.train import inherit, lengths, stopped

RECENT = 10  # steps of an RL stage that its speed is taken from
STATES = ("done", "stale", "running", "interrupted", "stopped", "waiting")


def stage_states(recipe: Recipe, layout: Layout) -> list[dict[str, Any]]:
    """One row a stage, in order: stage, kind, state, step, steps, loss, reward, tokens_per_second,
    seconds_left, job, nodes, changed, detail, run_id. On a cluster `squeue` is asked too."""
    jobs = queue.jobs_of(layout.root.parent)
    return [stage_state(recipe, layout, name, job_of(recipe, name, jobs)) for name in recipe.stages]


def job_of(recipe: Recipe, name: str, jobs: dict[str, queue.Job]) -> queue.Job | None:
    """The job that makes a stage's `done`: its rule is named as its step."""
    return jobs.get(f"rule_{identity.stage_step(recipe, name)}_wildcards_{name}")


def stage_state(recipe: Recipe, layout: Layout, name: str, job: queue.Job | None = None) -> dict[str, Any]:
    stage = recipe.stages[name]
    done = runs.read_done(layout, name)
    begun = done is None and layout.runs(name).is_dir()
    mine = identity.recipe_id(recipe, identity.stage_step(recipe, name), name) if begun else ""
    run = runs.current_run(layout, name, mine)
    if isinstance(stage, AdoptedStage):
        return adopted_state(recipe, name, stage, done)
    row: dict[str, Any] = {
        "stage": name,
        "kind": stage.kind,
        "state": "waiting",
        "step": 0,
        "steps": lengths.steps(recipe, layout, name),
        "loss": None,
        "reward": None,
        "tokens_per_second": None,
        "seconds_left": None,
        "job": job.job_id if job else None,
        "nodes": job.nodes if job else None,
        "changed": [],
        "detail": in_queue(job),
        "run_id": run.name if run else None,
    }
    if run is not None and done is None and is_of_another_recipe(recipe, name, run):
        return row | {"run_id": None, "detail": row["detail"] or f"begins anew; another recipe's run: {run}"}
    if run is not None:
        row |= progress(recipe, layout, name, run)
    if done is not None:
        return row | finished(recipe, name, done)
    if run is None:
        return row if row["detail"] else row | {"detail": measured(layout, name, stage)}
    if (run / "stopped.json").is_file():
        reason = stopped.read(run / "stopped.json")
        return row | {"state": "stopped", "detail": f"{reason}; to try again: rm {run / 'stopped.json'}"}
    return row | liveness(run, job) | pace(stage, run, row)


def is_of_another_recipe(recipe: Recipe, name: str, run: Path) -> bool:
    """Whether a run without a live owner is none that this recipe goes on with."""
    made_with, who = runs.made_with(run), owner.read_owner(run)
    if made_with is None or (who is not None and owner.is_alive(who, run)):
        return False
    mine = {identity.recipe_id(recipe, identity.stage_step(recipe, name), name)}
    if isinstance(recipe.stages[name], TrainStage):
        mine |= set(inherit.stopping_ids(recipe, name))
    return made_with not in mine


def measured(layout: Layout, name: str, stage: TrainStage | RLStage) -> str:
    """How far the choice of an RL stage's prompts is, where it waits for that."""
    if not isinstance(stage, RLStage) or stage.difficulty is None:
        return ""
    if layout.kept_prompts(name).is_file():
        return "its prompts are chosen"
    shards = stage.difficulty.shards
    found = sum(layout.pass_rates(name, shard_name(index), shards).is_file() for index in range(shards))
    return f"pass rates of its prompts: {found} of {numbers.counted(shards, 'shard')}" if found else ""


def in_queue(job: queue.Job | None) -> str:
    if job is None:
        return ""
    if job.state == "PENDING":
        return f"job {job.job_id} waits in the queue: {job.reason}"
    return f"job {job.job_id} on {job.nodes}, {job.time_left} until its limit"


def pace(stage: TrainStage | RLStage, run: Path, row: dict[str, Any]) -> dict[str, Any]:
    """Tokens per second and seconds left; nothing before the first step."""
    if not row["step"]:
        return {}
    if isinstance(stage, RLStage):
        return rl_pace(run, stage.steps - row["step"])
    last = runs.last_line(run / "speed.jsonl") or {}  # the trainer's last progress line
    return {key: last.get(key) for key in ("tokens_per_second", "seconds_left")}


def rl_pace(run: Path, steps_left: int) -> dict[str, Any]:
    """Response tokens of the last steps by their seconds, sampling, judging, learning and recover points
    included; the steps left at the median of these seconds. Evaluations count in neither."""
    tokens = {
        row["step"]: row["mean_tokens"] * row["responses"] for row in runs.read_lines(run / "reward.jsonl")
    }
    seconds = {row["step"]: sum(row["seconds"].values()) for row in runs.read_lines(run / "speed.jsonl")}
    recent = sorted(tokens.keys() & seconds.keys())[-RECENT:]  # a step's speed is written after its reward
    spent = [seconds[step] for step in recent]
    if not sum(spent):
        return {}
    sampled = sum(tokens[step] for step in recent)
    return {"tokens_per_second": sampled / sum(spent), "seconds_left": statistics.median(spent) * steps_left}


def adopted_state(
    recipe: Recipe, name: str, stage: AdoptedStage, done: dict[str, Any] | None
) -> dict[str, Any]:
    """The row of a stage that is not trained here: done, stale, or waiting for `zgcm adopt`."""
    row: dict[str, Any] = {
        **{"stage": name, "kind": stage.kind, "state": "waiting", "step": 0, "steps": 0},
        **{"loss": None, "reward": None, "tokens_per_second": None, "seconds_left": None},
        **{"job": None, "nodes": None, "changed": [], "run_id": done["run_id"] if done else None},
    }
    if done is None:
        there = "" if Path(stage.path).is_dir() else ", which is not there yet"
        return row | {"detail": f"to be adopted: {stage.format} weights of {stage.path}{there}"}
    row |= finished(recipe, name, done)
    if stage.weights_digest not in (None, done["weights_digest"]):
        return row | {"state": "stale", "changed": ["weights_digest"], "detail": "changed: weights_digest"}
    return row | {"detail": row["detail"] or f"adopted: {stage.format} weights {done['weights_digest'][:12]}"}


def progress(recipe: Recipe, layout: Layout, name: str, run: Path) -> dict[str, Any]:
    """How far a run is: steps of this stage taken, and its last loss or evaluated reward."""
    if isinstance(recipe.stages[name], RLStage):
        last = runs.last_line(run / "reward.jsonl") or {}
        evaluated = evaluations(layout, name)
        return {"step": last.get("step", 0), "reward": evaluated[-1].mean if evaluated else None}
    last = runs.last_line(run / "loss.jsonl") or {}
    start = lengths.first_iteration(recipe, layout, name)
    return {"step": max(last.get("iteration", start) - start, 0), "loss": last.get("loss")}


def finished(recipe: Recipe, name: str, done: dict[str, Any]) -> dict[str, Any]:
    """done or stale: the basis written into `done` against the one the recipe has now."""
    now = identity.basis(recipe, identity.stage_step(recipe, name), name)
    keys = identity.changed_keys(done["basis"], now)
    if not keys:
        return {"state": "done", "detail": ""}
    own, parents = reasons.parted(keys)
    return {"state": "stale", "changed": own + parents, "detail": reasons.of_keys(keys)}


def liveness(run: Path, job: queue.Job | None) -> dict[str, Any]:
    """running or interrupted. Another host's process is believed while its heartbeat is young."""
    who = owner.read_owner(run)
    ago = numbers.duration(max(time.time() - runs.last_written(run), 0))
    if who is not None and owner.is_alive(who, run):
        where = in_queue(job) or f"process {who.pid} on {who.host}"
        return {"state": "running", "detail": f"{where}; last sign of life {ago} ago"}
    again = in_queue(job) or "`zgcm run` resumes it"
    return {"state": "interrupted", "detail": f"no live process; last written {ago} ago; {again}"}


def last_value(row: dict[str, Any]) -> str:
    """The last loss or evaluated reward in words, empty when there is none."""
    if row["loss"] is not None:
        return f"loss {numbers.loss(row['loss'])}"
    return f"reward {numbers.percent(row['reward'])}" if row["reward"] is not None else ""
