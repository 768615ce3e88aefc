"""Inputs of a stage that are finished but belong to other settings than the recipe's. Reads small files only.

Snakemake decides what to make again by its own records. These checks read the artifacts themselves, so they
also see what a lost `.snakemake/` or a verb called by hand leaves behind.
"""

from functools import partial
from typing import Any

from zgcm import identity
from zgcm.config.recipe import Recipe
from zgcm.config.stages import TrainStage
from zgcm.errors import ZgcmError
from zgcm.io import read_json
from zgcm.layout import Layout, mix_shards
from zgcm.train.inputs import tokenizer_digest


def stale_inputs(recipe: Recipe, layout: Layout, stage: TrainStage) -> list[str]:
    """A line for each input that exists and is not what the recipe would make now."""
    asked = [partial(find, recipe, layout, mix) for mix in stage.mix for find in (stale_plan, stale_shards)]
    if stage.init is not None:
        asked.append(partial(stale_initial, recipe, layout, stage.init))
    problems = []
    for find in asked:
        try:
            problems += find()
        except ZgcmError as error:  # a damaged file tells nothing of its settings
            problems.append(error.paragraph())
    return problems


def stale_plan(recipe: Recipe, layout: Layout, mix: str) -> list[str]:
    """The settings a mix was planned with against the recipe's."""
    path, section = layout.plan(mix), recipe.mixes[mix]
    if not path.is_file():
        return []
    plan = read_json(path)
    now: dict[str, Any] = {
        "order": section.order,
        "seed": section.seed,
        "quota_tokens": section.tokens,
        "weights": {source: weight for source, weight in section.sources.items() if weight > 0},
        "shards": mix_shards(recipe, mix),
    }
    then = {key: plan[key] for key in ("order", "seed", "quota_tokens")}
    then["weights"] = {source: facts["weight"] for source, facts in plan["sources"].items()}
    then["shards"] = sorted(plan["shards"])
    changed = [key for key in now if now[key] != then[key]]
    if not changed:
        return []
    found = ", ".join(f"{key} {short(then[key])} (recipe: {short(now[key])})" for key in changed)
    return [f"Mix {mix} was planned with other settings. at: {path}. found: {found}. to do: zgcm mix {mix}."]


def stale_shards(recipe: Recipe, layout: Layout, mix: str) -> list[str]:
    """Shards gathered for another plan or with another tokenizer, and packed counts that no longer add up."""
    plan = read_json(layout.plan(mix)) if layout.plan(mix).is_file() else {}
    tokenizer = known_tokenizer(layout)
    problems, reports = [], []
    for shard in mix_shards(recipe, mix):
        path = layout.mix(mix) / f"{shard}.json"
        if not path.is_file():
            continue
        report = read_json(path)
        reports.append(report)
        planned = plan.get("shards", {}).get(shard, {}).get("tokens")
        if recipe.mixes[mix].kind == "documents" and planned not in (None, report.get("tokens")):
            problems.append(
                f"A shard is not the one that its mix plans. at: {path}. found: {report.get('tokens')} "
                f"tokens. expected: {planned}. to do: zgcm gather {mix} {shard}."
            )
        if tokenizer is not None and report.get("tokenizer", tokenizer) != tokenizer:
            problems.append(f"A shard was made with another tokenizer than {layout.tokenizer}. at: {path}.")
    whole = len(reports) == len(mix_shards(recipe, mix))
    if recipe.mixes[mix].kind == "packed" and whole and layout.dataset(mix).is_file():
        counted = sum(report["tokens"] for report in reports)
        stated = read_json(layout.dataset(mix))["train_tokens"]
        if counted != stated:
            problems.append(
                f"The packed counts are not those of the shards. at: {layout.dataset(mix)}. found: {stated} "
                f"tokens. expected: {counted}. to do: zgcm pack-summary {mix}."
            )
    return problems


def known_tokenizer(layout: Layout) -> str | None:
    """Digest of the tokenizer; None while it is missing, which zgcm.train.inputs reports."""
    return tokenizer_digest(layout.tokenizer) if (layout.tokenizer / "manifest.json").is_file() else None


def stale_initial(recipe: Recipe, layout: Layout, init: str) -> list[str]:
    """The stage before, finished with other settings than the recipe has now."""
    path = layout.done(init)
    if not path.is_file():
        return []
    before = read_json(path)["basis"]
    changed = identity.changed_keys(before, identity.basis(recipe, before["step"], init))
    if not changed:
        return []
    keys = ", ".join(key.removeprefix("settings.") for key in changed)
    return [
        f"Stage {init} has finished, but the recipe has changed since. at: {path}. found: other {keys}. "
        f"to do: zgcm {before['step']} {init}."
    ]


def short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
