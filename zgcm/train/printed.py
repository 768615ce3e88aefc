"""What `zgcm train STAGE --print-argv` prints: the engine's arguments of a first start, and what is assumed.

    for line in text(recipe, layout, "sft"): print(line)

The golden files of tests/train/golden are these lines for config/zgcm-7b.yaml; see the README there.
"""

import shlex
from typing import Any

from zgcm.config.plan import stage_plan
from zgcm.config.recipe import Recipe
from zgcm.config.stages import TrainStage
from zgcm.layout import Layout
from zgcm.numbers import counted
from zgcm.rundir.stamp import own_results
from zgcm.train.arguments import load_argv, megatron_argv, only_mix, plan, train_stage

RUN = "RUN_ID"
"""Stands for the run directory's name, which depends on the data's digests."""


def argv(recipe: Recipe, layout: Layout, name: str) -> list[str]:
    """All arguments of the stage's first start, in order. Raises ZgcmError when its length is unknown."""
    run = layout.runs(name) / RUN
    length = plan(recipe, own_results(recipe, layout), name)
    options = megatron_argv(recipe, layout, name, run, length)
    return [part for option in [*options, load_argv(train_stage(recipe, name), run)] for part in option]


def text(recipe: Recipe, layout: Layout, name: str) -> list[str]:
    """What is assumed and what our trainer adds, as comments; then one argument with its value a line."""
    lines = [f"# assumed: {line}" for line in assumed(recipe, layout, name)]
    lines += ["# Beside megatron-core's options, from trainer.json:"]
    lines += [f"#   {key}: {value}" for key, value in beside(recipe, name).items()]
    return lines + [shlex.join(group) for group in grouped(argv(recipe, layout, name))]


def grouped(parts: list[str]) -> list[list[str]]:
    """An option and its values together."""
    groups: list[list[str]] = []
    for part in parts:
        if part.startswith("--"):
            groups.append([part])
        else:
            groups[-1].append(part)
    return groups


def assumed(recipe: Recipe, layout: Layout, name: str) -> list[str]:
    """What stands in for facts that were never published, or that the data will tell once they exist."""
    stage = train_stage(recipe, name)
    found = [
        f"the weights of mix {mix} were never published" for mix in stage.mix if recipe.mixes[mix].assumed
    ]
    data = own_results(recipe, layout)
    if stage.kind == "sft" and not data.dataset(only_mix(stage, name)).exists():
        found.append(
            f"iterations follow from stages.{name}.expected_train_tokens = {stage.expected_train_tokens}; "
            "the packed data does not exist here"
        )
    return found


def beside(recipe: Recipe, name: str) -> dict[str, Any]:
    """What decides the stage's result and is no option of megatron-core's; zgcm.train.entry does it."""
    stage = train_stage(recipe, name)
    blend = {
        mix: f"{counted(recipe.mixes[mix].shards, 'shard')} of weight {weight:g}"
        for mix, weight in stage.mix.items()
    }
    facts: dict[str, Any] = {
        "attention output gate": recipe.model.attention_output_gate,
        "data order": stage.data_order,
        "data": ", ".join(f"{mix} ({shards})" for mix, shards in blend.items()),
        "first sample": "unknown" if (first := samples_before(recipe, name)) is None else first,
    }
    if stage.dataloader_prefetch and stage.dataloader_workers:
        facts["batches read ahead by a worker"] = stage.dataloader_prefetch
    return facts


def samples_before(recipe: Recipe, name: str) -> int | None:
    """Samples that the stages it continues have consumed: the index of its own data's first sample.

    None where it continues weights that no stage of the recipe trains: their record will tell.
    """
    stage = train_stage(recipe, name)
    if not stage.continues or stage.init is None:
        return 0
    if not isinstance(recipe.stages[stage.init], TrainStage):
        return None
    earlier, own = samples_before(recipe, stage.init), stage_plan(recipe, stage.init).samples
    return None if earlier is None or own is None else earlier + own
