"""What `zgcm check` prints: a recipe's parameters, sources, mixes, stages, assumptions, and missing files,
as data and as text."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from zgcm import numbers
from zgcm.config.corpus import Mix, Source
from zgcm.config.plan import blend_shares, parameters, passes_over_data, stage_plan
from zgcm.config.recipe import Recipe
from zgcm.config.resources import Resources
from zgcm.config.rl import RLStage
from zgcm.config.stages import AdoptedStage, TrainStage
from zgcm.layout import read_lock, shard_count
from zgcm.missing import SHOWN, missing_files
from zgcm.preflight.needs import sandboxed
from zgcm.rl import contract
from zgcm.rl.sandbox import image
from zgcm.terminal import aligned, wrapped

Facts = dict[str, Any]
SOURCES = ("source", "kind", "stage", "category", "shards", "from")
MIXES = ("mix", "kind", "order", "tokens", "shards", "sources", "leaves out")
STAGES = ("stage", "kind", "init", "data", "context", "steps", "tokens", "rate", "layout", "nodes")


def summary(recipe: Recipe) -> Facts:
    """Plain data: what the recipe amounts to before anything runs."""
    counted = parameters(recipe.model, recipe.tokenizer.vocab_size)
    return {
        "name": recipe.name,
        "description": recipe.description,
        "parameters": {"total": counted.total, "matrices": counted.matrices, "others": counted.others},
        "sources": {name: _source(recipe, name, source) for name, source in recipe.sources.items()},
        "mixes": {name: _mix(mix) for name, mix in recipe.mixes.items()},
        "stages": {name: _stage(recipe, name, stage) for name, stage in recipe.stages.items()},
        "assumed_mixes": assumed_mixes(recipe),
        "assumed_sources": assumed_sources(recipe),
        "assumed_bounds": assumed_bounds(recipe),
        "differs_from_published": {
            name: {key: list(pair) for key, pair in contract.differences(stage).items()}
            for name, stage in recipe.rl_stages().items()
        },
        "remarks": [contract.remark(name, stage) for name, stage in recipe.rl_stages().items()]
        + difficulty_remarks(recipe)
        + sandbox_remarks(recipe),
        "missing": _missing_facts(recipe),
    }


def _source(recipe: Recipe, name: str, source: Source) -> Facts:
    origin = {"demo": "content", "hub": "repo", "files": "lock"}[source.kind]
    return {
        "kind": source.kind,
        "stage": source.stage,
        "category": source.category,
        "shards": _shards(recipe, name),
        "from": getattr(source, origin) or source.files[0],  # type: ignore[union-attr]
        "files": len(getattr(source, "files", [])),
    }


def _mix(mix: Mix) -> Facts:
    """`sources`: the share of each, by weight; none in a mix without a quota, which takes everything once."""
    whole = sum(mix.sources.values()) or 1
    near, decontaminate = mix.near_duplicates, mix.decontaminate
    return {
        "kind": mix.kind,
        "order": mix.order,
        "tokens": mix.tokens,
        "shards": mix.shards,
        "sources": {
            name: None if mix.tokens is None else weight / whole for name, weight in mix.sources.items()
        },
        "prefixes": mix.prefixes,
        "exclude": mix.exclude,
        "near_duplicates": near and near.threshold,
        "decontaminated": len(decontaminate.against) if decontaminate else None,
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
    sources, mixes, stages = facts["sources"], facts["mixes"], facts["stages"]
    shards = sum(source["shards"] or 0 for source in sources.values())
    lines = [
        f"{facts['name']}: a valid recipe. {facts['description']}".rstrip(),
        f"{short(counted['total'])} parameters: {short(counted['matrices'])} in layer matrices, "
        f"{short(counted['others'])} in embedding, output head and norms",
        f"{numbers.counted(len(sources), 'source')} in {numbers.counted(shards, 'shard')}, "
        f"{len(mixes)} mix{'es' if len(mixes) != 1 else ''} in "
        f"{numbers.counted(sum(mix['shards'] for mix in mixes.values()), 'shard')}",
        "",
        *aligned([SOURCES, *(_source_row(name, source) for name, source in sources.items())]),
        "",
        *aligned([MIXES, *(_mix_row(name, mix) for name, mix in mixes.items())]),
        "",
        *aligned([STAGES, *(_row(name, stage) for name, stage in stages.items())]),
        "",
        *_missing(facts["missing"]),
        *_remarks(facts),
        "layout: TP x PP x CP x DP, and micro-batches a step; RL: rollout engines + learners. "
        "Every key: docs/recipe.md",
    ]
    return "\n".join(wrapped("\n".join(lines)))


def _source_row(name: str, source: Facts) -> tuple[str, ...]:
    more = f" and {source['files'] - 1} more" if source["files"] > 1 else ""
    shards = "no lock" if source["shards"] is None else f"{source['shards']:,}"
    return name, source["kind"], source["stage"], source["category"], shards, f"{source['from']}{more}"


def _mix_row(name: str, mix: Facts) -> tuple[str, ...]:
    shares = ", ".join(
        source if share is None else f"{source} {100 * share:.3g}%"
        for source, share in mix["sources"].items()
    )
    made_of = shares or f"adopted: {mix['prefixes'][0]}" + (" ..." if len(mix["prefixes"]) > 1 else "")
    tokens = "all" if mix["tokens"] is None else short(mix["tokens"])
    order = mix["order"] if mix["sources"] else ""
    out = [*mix["exclude"]]
    if mix["near_duplicates"] is not None:
        out.append(f"near-duplicates ({mix['near_duplicates']:g})")
    if mix["decontaminated"] is not None:
        out.append(numbers.counted(mix["decontaminated"], "evaluation file"))
    return name, mix["kind"], order, tokens, f"{mix['shards']:,}", made_of, ", ".join(out)


def missing(recipe: Recipe, parts: Collection[str]) -> list[str]:
    """Sentences on files that `parts` of the recipe (`stages.sft`) name and that are not there."""
    facts = _missing_facts(recipe)
    return _missing([file for file in facts if ".".join(file["key"].split(".")[:2]) in parts])


def _missing_facts(recipe: Recipe) -> list[dict[str, str]]:
    return [{"key": file.key, "path": file.path, "to_do": file.hint} for file in missing_files(recipe)]


def _missing(files: list[dict[str, str]]) -> list[str]:
    """A line a file; of many that one key lists the first few. A file that several keys name comes once."""
    by_key: dict[str, list[dict[str, str]]] = {}
    for file in {file["path"]: file for file in reversed(files)}.values():
        by_key.setdefault(file["key"], []).insert(0, file)
    lines = []
    for key, absent in reversed(by_key.items()):
        more = f" and {len(absent) - SHOWN} more" if len(absent) > SHOWN else ""
        names = ", ".join(file["path"] for file in absent[:SHOWN])
        lines.append(f"missing: {key}: {names}{more}; to do: {absent[0]['to_do']}")
    return lines


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


def difficulty_remarks(recipe: Recipe) -> list[str]:
    """Which prompts are left out, and how many jobs find that out."""
    said = []
    for name, stage in recipe.rl_stages().items():
        if (asked := stage.difficulty) is not None:
            said.append(
                f"{name} keeps prompts whose pass rate over {asked.samples} responses of its first policy is "
                f"{asked.min_pass_rate:g} to {asked.max_pass_rate:g}, measured in "
                f"{numbers.counted(asked.shards, 'job')}"
            )
    return said


def sandbox_remarks(recipe: Recipe) -> list[str]:
    """Which stages would fail on this machine because their sandbox does not start on it."""
    own = sandboxed(recipe)
    reason = image.trouble() if own else ""
    if not reason:
        return []
    return [f"{', '.join(own)}: no sandbox starts on this machine: {reason}; see docs/sandbox.md"]


def assumed_mixes(recipe: Recipe) -> list[str]:
    return [name for name, mix in recipe.mixes.items() if mix.assumed]


def assumed_sources(recipe: Recipe) -> list[str]:
    return [name for name in recipe.sources if _assumed(recipe, name)]


def assumptions(recipe: Recipe) -> list[str]:
    """Sentences on what the recipe assumes because it was never published."""
    assumed = assumed_mixes(recipe), assumed_sources(recipe), assumed_bounds(recipe)
    return _assumptions(*assumed, len(recipe.sources))


def assumed_bounds(recipe: Recipe) -> list[str]:
    """RL stages whose pass rates are assumed."""
    measured = {name: stage.difficulty for name, stage in recipe.rl_stages().items()}
    return [name for name, difficulty in measured.items() if difficulty is not None and difficulty.assumed]


def _assumptions(mixes: list[str], sources: list[str], bounds: list[str], all_sources: int) -> list[str]:
    said = [f"assumed, never published: weights and quotas of {', '.join(mixes)}"] if mixes else []
    if sources:
        which = f"all {all_sources} sources" if len(sources) == all_sources else ", ".join(sources)
        said.append(f"assumed, never published: shard lists of {which}")
    if bounds:
        said.append(f"assumed, never published: pass rates between which {', '.join(bounds)} keep prompts")
    return said


def _remarks(facts: Facts) -> list[str]:
    remarks = []
    assumed = facts["assumed_mixes"], facts["assumed_sources"], facts["assumed_bounds"]
    remarks += _assumptions(*assumed, len(facts["sources"]))
    for name, stage in facts["stages"].items():
        if stage["kind"] == "adopted":
            remarks.append(f"{name} is adopted: {stage['format']} weights of {stage['path']}")
        passes = stage.get("passes_over_data")
        if passes is not None and passes > 1:
            remarks.append(f"{name} reads {passes:.2f} times the quota of its mixes: data repeats")
    return remarks + facts["remarks"]


def short(number: int) -> str:
    """A count with three or four digits and a unit: 7.393B, 180.0B, 102.4K."""
    for unit, size in (("T", 10**12), ("B", 10**9), ("M", 10**6), ("K", 10**3)):
        if number >= size:
            return f"{number / size:.4g}{unit}"
    return str(number)
