"""The pipeline as boxes and arrows, read from the recipe: sources, mixes, stages, exports, RL stages.

Sources that feed the same mixes share a box, so a recipe with fifty sources stays readable. This module says
what is drawn; zgcm.report.dag places and draws it.
"""

from dataclasses import dataclass, field
from typing import Any

from zgcm import numbers
from zgcm.config.recipe import Recipe
from zgcm.config.rl import RLStage
from zgcm.config.stages import AdoptedStage, TrainStage

LISTED = 6  # names in a box of sources; the rest is counted


@dataclass(frozen=True)
class Box:
    """One box. `lines` are (left, right) texts; `state` is one of zgcm.status.STATES or empty."""

    key: str
    column: str
    title: str
    state: str = ""
    lines: list[tuple[str, str]] = field(default_factory=list)
    tooltip: str = ""


@dataclass(frozen=True)
class Arrow:
    start: str
    end: str
    dashed: bool = False


@dataclass(frozen=True)
class Graph:
    boxes: list[Box]
    arrows: list[Arrow]


def pipeline(recipe: Recipe, facts: dict[str, Any]) -> Graph:
    """The graph of a recipe.

    `facts`: sources {name: {documents, state}}, tokenizer {state}, mixes {name: {tokens, state}}, stages
    {name: row of the stage table}, exports {stage: state}. What is absent is drawn as waiting.
    """
    boxes: list[Box] = []
    arrows: list[Arrow] = []
    for feeds, sources in source_groups(recipe).items():
        key = f"sources:{sources[0]}"
        boxes.append(source_box(key, sources, facts.get("sources", {}), bool(feeds)))
        arrows += [Arrow(key, f"mix:{mix}") for mix in feeds]
        if recipe.tokenizer.kind == "train" and set(sources) & set(recipe.tokenizer.sources):
            arrows.append(Arrow(key, "tokenizer", dashed=True))
    boxes.append(tokenizer_box(recipe, facts.get("tokenizer", {})))
    for name in recipe.mixes:
        boxes.append(mix_box(recipe, name, facts.get("mixes", {}).get(name, {})))
        arrows.append(Arrow("tokenizer", f"mix:{name}", dashed=True))
    exported = facts.get("exports", {})
    for name in export_names(recipe):
        boxes.append(Box(f"export:{name}", "export", f"export/{name}", exported.get(name, "waiting")))
        arrows.append(Arrow(f"stage:{name}", f"export:{name}"))
    for name, stage in recipe.stages.items():
        row = facts.get("stages", {}).get(name, {})
        if isinstance(stage, AdoptedStage):
            boxes.append(
                Box(f"stage:{name}", "stage", name, row.get("state", "waiting"), [("adopted", stage.format)])
            )
            continue
        if isinstance(stage, RLStage):
            boxes.append(rl_box(name, stage, row))
            arrows.append(Arrow(f"export:{stage.init}", f"stage:{name}"))
            continue
        boxes.append(train_box(name, stage, row))
        arrows += [Arrow(f"mix:{mix}", f"stage:{name}") for mix in stage.mix]
        if stage.init:
            arrows.append(Arrow(f"stage:{stage.init}", f"stage:{name}"))
    return Graph(boxes, arrows)


def source_groups(recipe: Recipe) -> dict[tuple[str, ...], list[str]]:
    """Mixes that a source feeds -> the sources that feed just these, in the recipe's order."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for source in recipe.sources:
        feeds = tuple(name for name, mix in recipe.mixes.items() if source in mix.sources)
        groups.setdefault(feeds, []).append(source)
    return groups


def export_names(recipe: Recipe) -> list[str]:
    """Stages whose weights leave the workflow: where RL starts, and every RL stage; without RL, the last."""
    rl = recipe.rl_stages()
    wanted = {stage.init for stage in rl.values()} | set(rl) or {list(recipe.stages)[-1]}
    return [name for name in recipe.stages if name in wanted]


def source_box(key: str, sources: list[str], facts: dict[str, Any], used: bool) -> Box:
    if len(sources) == 1:
        (name,) = sources
        fact = facts.get(name, {})
        lines = [("kept", numbers.count(fact.get("documents")))] + ([] if used else [("used by no mix", "")])
        return Box(key, "source", name, fact.get("state", "waiting"), lines)
    states = {facts.get(name, {}).get("state", "waiting") for name in sources}
    state = states.pop() if len(states) == 1 else "running"
    listed = sources if len(sources) <= LISTED + 1 else sources[:LISTED]
    lines = [(name, numbers.count(facts.get(name, {}).get("documents"))) for name in listed]
    if len(listed) < len(sources):
        lines.append((f"and {len(sources) - len(listed)} more", ""))
    if not used:
        lines.append(("used by no mix", ""))
    return Box(key, "source", f"{len(sources)} sources", state, lines, ", ".join(sources))


def tokenizer_box(recipe: Recipe, facts: dict[str, Any]) -> Box:
    made = "trained here" if recipe.tokenizer.kind == "train" else "imported"
    lines = [(made, f"{recipe.tokenizer.vocab_size:,} tokens")]
    return Box("tokenizer", "source", "tokenizer", facts.get("state", "waiting"), lines)


def mix_box(recipe: Recipe, name: str, facts: dict[str, Any]) -> Box:
    mix = recipe.mixes[name]
    tokens = facts.get("tokens") or mix.tokens
    shards = numbers.counted(mix.shards, "shard")
    size = f"{numbers.count(tokens)} tokens" if tokens else "all documents"
    order = f"packed to {numbers.context(mix.sequence_length)}" if mix.sequence_length else mix.order
    order = f"adopted, {order}" if mix.prefixes else order
    lines = [(size, shards), (order, "")] + ([("weights assumed", "")] if mix.assumed else [])
    return Box(f"mix:{name}", "mix", name, facts.get("state", "waiting"), lines)


def train_box(name: str, stage: TrainStage, row: dict[str, Any]) -> Box:
    planned = row.get("planned_steps") or row.get("steps")
    steps = "by its data" if planned is None else f"{numbers.count(planned)} steps"
    lines = [(f"seq {numbers.context(stage.seq_length)}", steps)]
    if row.get("tokens"):
        losses = numbers.arrow(f"{row['first_loss']:.2f}", f"{row['last_loss']:.2f}")
        lines.append((f"{numbers.count(row['tokens'])} tokens", losses))
    return Box(f"stage:{name}", "stage", name, row.get("state", "waiting"), lines)


def rl_box(name: str, stage: RLStage, row: dict[str, Any]) -> Box:
    size = f"{numbers.count(stage.batch_size)} × {stage.rollout.sampling.n_samples}"
    lines = [(f"GRPO, {stage.domain}", f"{numbers.count(stage.steps)} steps"), ("rollouts", size)]
    if row.get("reward_last") is not None:
        first, last = row["reward_first"], row["reward_last"]
        lines.append(("reward", numbers.arrow(numbers.percent(first, 0), numbers.percent(last, 0))))
    return Box(f"stage:{name}", "rl", name, row.get("state", "waiting"), lines)
