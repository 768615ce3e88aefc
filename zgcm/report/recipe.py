"""What `zgcm check` prints: a recipe's parameters, stages and assumptions, as data and as text."""

from pathlib import Path
from typing import Any

from zgcm.config.plan import blend_shares, parameters, passes_over_data, stage_plan
from zgcm.config.recipe import Recipe
from zgcm.config.rl import RLStage
from zgcm.config.stages import AdoptedStage, Resources, TrainStage
from zgcm.layout import read_lock, shard_count

Facts = dict[str, Any]
COLUMNS = ("stage", "kind", "init", "data", "context", "steps", "tokens", "rate", "layout", "nodes")


def summary(recipe: Recipe) -> Facts:
    """Plain data: what the recipe amounts to before anything runs."""
    counted = parameters(recipe.model, recipe.tokenizer.vocab_size)
    return {
        "name": recipe.name,
        "description": recipe.description,
        "parameters": {"total": counted.total, "matrices": counted.matrices, "others": counted.others},
        "sources": {name: _shards(recipe, name) for name in recipe.sources},
        "mixes": {name: mix.shards for name, mix in recipe.mixes.items()},
        "stages": {name: _stage(recipe, name, stage) for name, stage in recipe.stages.items()},
        "assumed_mixes": assumed_mixes(recipe),
        "assumed_sources": assumed_sources(recipe),
    }


def _stage(recipe: Recipe, name: str, stage: TrainStage | RLStage | AdoptedStage) -> Facts:
    if isinstance(stage, RLStage):
        return _rl(stage)
    if isinstance(stage, TrainStage):
        return _training(recipe, name, stage)
    return {
        "kind": stage.kind,
        "format": stage.format,
        "path": stage.path,
        "there": Path(stage.path).is_dir(),
        "resources": _resources(stage.resources),
    }


def _shards(recipe: Recipe, source: str) -> int | None:
    """None where the lock is still to be written."""
    lock = getattr(recipe.sources[source], "lock", None)
    return None if lock is not None and not Path(lock).exists() else shard_count(recipe, source)


def _assumed(recipe: Recipe, source: str) -> bool:
    lock = getattr(recipe.sources[source], "lock", None)
    return lock is not None and Path(lock).exists() and bool(read_lock(Path(lock), source).get("assumed"))


def _training(recipe: Recipe, name: str, stage: TrainStage) -> Facts:
    plan, ranks = stage_plan(recipe, name), stage.parallel
    return {
        "kind": stage.kind,
        "init": stage.init,
        "continues": stage.continues,
        "data": {mix: float(share) for mix, share in blend_shares(recipe, name).items()},
        "context": stage.seq_length,
        "iterations": plan.iterations,
        "last_iteration": plan.last_iteration,
        "epochs": stage.schedule.epochs,
        "samples": plan.samples,
        "tokens": plan.tokens,
        "passes_over_data": passes_over_data(recipe, name),
        "learning_rate": stage.optimizer.lr,
        "learning_rate_style": stage.optimizer.lr_decay_style,
        "global_batch_size": stage.global_batch_size,
        "micro_batches": plan.micro_batches,
        "ranks": {
            "tensor": ranks.tensor,
            "pipeline": ranks.pipeline,
            "context": ranks.context,
            "data": plan.data_parallel,
        },
        "resources": _resources(stage.resources),
    }


def _rl(stage: RLStage) -> Facts:
    return {
        "kind": stage.kind,
        "init": stage.init,
        "domain": stage.domain,
        "context": stage.rollout.max_model_len,
        "steps": stage.steps,
        "prompts_a_step": stage.batch_size,
        "responses_a_prompt": stage.rollout.sampling.n_samples,
        "responses": stage.steps * stage.batch_size * stage.rollout.sampling.n_samples,
        "learning_rate": stage.learner.lr,
        "learning_rate_style": stage.learner.lr_scheduler,
        "evaluation_versions": stage.evaluation_versions(),
        "engines": stage.rollout.engines,
        "learners": stage.learner.processes,
        "resources": _resources(stage.resources),
    }


def _resources(resources: Resources) -> Facts:
    return {
        "nodes": resources.nodes,
        "gpus_per_node": resources.gpus_per_node,
        "processes": resources.world_size,
    }


def text(facts: Facts) -> str:
    """The facts for a reader at a terminal."""
    counted = facts["parameters"]
    shards = [count for count in facts["sources"].values() if count is not None]
    rows = [COLUMNS, *(_row(name, stage) for name, stage in facts["stages"].items())]
    lines = [
        f"{facts['name']}: a valid recipe. {facts['description']}".rstrip(),
        f"{short(counted['total'])} parameters: {short(counted['matrices'])} in layer matrices, "
        f"{short(counted['others'])} in embedding, output head and norms",
        f"{len(facts['sources'])} sources in {sum(shards)} shards, {len(facts['mixes'])} mixes in "
        f"{sum(facts['mixes'].values())} shards",
        "",
        *_table(rows),
        "",
        *_remarks(facts),
        "layout: TP x PP x CP x DP, and micro-batches a step; RL: rollout engines + learners. "
        "Every key: docs/recipe.md",
    ]
    return "\n".join(lines)


def _row(name: str, stage: Facts) -> tuple[str, ...]:
    where = stage["resources"]
    gpus = where["gpus_per_node"]
    nodes = f"{where['nodes']} x {gpus} GPU" if gpus else f"{where['nodes']} x CPU"
    if stage["kind"] == "adopted":
        return name, "adopted", stage["format"], "", "", "", "", "", "", nodes
    rate = f"{stage['learning_rate']:g} {stage['learning_rate_style']}"
    if stage["kind"] == "rl":
        responses = f"{stage['prompts_a_step']} x {stage['responses_a_prompt']} a step"
        layout = f"{stage['engines']} + {stage['learners']}"
        steps, tokens, data = f"{stage['steps']:,}", responses, f"{stage['domain']} prompts"
        return name, "rl", stage["init"], data, f"{stage['context']:,}", steps, tokens, rate, layout, nodes
    data = " ".join(mix if share == 1 else f"{mix} {100 * share:g}%" for mix, share in stage["data"].items())
    start = (f"{stage['init']}, going on" if stage["continues"] else stage["init"]) or "random"
    epochs = f"{stage['epochs']} epoch" + ("s" if stage["epochs"] != 1 else "")
    steps = epochs if stage["iterations"] is None else f"{stage['iterations']:,}"
    tokens = "by its data" if stage["tokens"] is None else short(stage["tokens"])
    ranks = stage["ranks"]
    layout = " x ".join(str(ranks[key]) for key in ("tensor", "pipeline", "context", "data"))
    layout += f", {stage['micro_batches']}"
    return name, stage["kind"], start, data, f"{stage['context']:,}", steps, tokens, rate, layout, nodes


def assumed_mixes(recipe: Recipe) -> list[str]:
    return [name for name, mix in recipe.mixes.items() if mix.assumed]


def assumed_sources(recipe: Recipe) -> list[str]:
    return [name for name in recipe.sources if _assumed(recipe, name)]


def assumptions(recipe: Recipe) -> list[str]:
    """Sentences on what the recipe assumes because it was never published."""
    return _assumptions(assumed_mixes(recipe), assumed_sources(recipe), len(recipe.sources))


def _assumptions(mixes: list[str], sources: list[str], all_sources: int) -> list[str]:
    said = [f"assumed, never published: weights and quotas of {', '.join(mixes)}"] if mixes else []
    if sources:
        which = f"all {all_sources} sources" if len(sources) == all_sources else ", ".join(sources)
        said.append(f"assumed, never published: shard lists of {which}")
    return said


def _remarks(facts: Facts) -> list[str]:
    remarks = []
    missing = [name for name, count in facts["sources"].items() if count is None]
    if missing:
        remarks.append(f"no lock yet: {', '.join(missing)} (write each with: zgcm sources lock SOURCE)")
    remarks += _assumptions(facts["assumed_mixes"], facts["assumed_sources"], len(facts["sources"]))
    for name, stage in facts["stages"].items():
        if stage["kind"] == "adopted":
            there = "" if stage["there"] else ", which is not there yet"
            remarks.append(f"{name} is adopted: {stage['format']} weights of {stage['path']}{there}")
        passes = stage.get("passes_over_data")
        if passes is not None and passes > 1:
            remarks.append(f"{name} reads {passes:.2f} times the quota of its mixes: data repeats")
    return remarks


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def short(number: int) -> str:
    """A count with three or four digits and a unit: 7.393B, 180.0B, 102.4K."""
    for unit, size in (("T", 10**12), ("B", 10**9), ("M", 10**6), ("K", 10**3)):
        if number >= size:
            return f"{number / size:.4g}{unit}"
    return str(number)
