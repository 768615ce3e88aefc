"""What will run and what it costs, before it runs: steps, tokens, FLOPs, GPU-hours, disk. Needs no data.

    plan = cost_plan(recipe, layout, Assumption())     # {"assumption", "stages", "mixes", "totals"}

GPU-hours rest on one stated assumption, a rate of model FLOPs a GPU; everything else is arithmetic.
"""

from dataclasses import dataclass
from typing import Any

from zgcm.config.plan import parameters
from zgcm.config.recipe import Recipe
from zgcm.config.rl import RLStage
from zgcm.config.stages import AdoptedStage, TrainStage
from zgcm.flops import checkpoint_bytes, flops_per_token
from zgcm.layout import Layout
from zgcm.rundir.stamp import own_results
from zgcm.status import stage_states
from zgcm.train.lengths import checkpoints_kept

# The published 585 TFLOP/s/GPU of 16K pretraining charge full attention on every layer; with windows
# honoured that is 585 x 42.73 / 53.43. The published SFT rate at 256K (377.6K tokens/s on 64 GPUs) gives 430:
# a rate of this kind carries over to other contexts; one in tokens or with full attention does not.
PUBLISHED_TFLOPS = 468.0


@dataclass(frozen=True)
class Assumption:
    """How fast one GPU trains. `tokens_per_second` overrides the rate in FLOPs for every stage."""

    tflops: float = PUBLISHED_TFLOPS
    tokens_per_second: float | None = None

    def words(self) -> str:
        if self.tokens_per_second is not None:
            return f"{self.tokens_per_second:,.0f} tokens/s a GPU in every stage, as given"
        if self.tflops == PUBLISHED_TFLOPS:
            return (
                f"{self.tflops:.0f} TFLOP/s a GPU with windows honoured, from the published 585 TFLOP/s "
                "(H100 or H200, FP8), which charge full attention"
            )
        return f"{self.tflops:g} TFLOP/s a GPU with windows honoured, as given"


def cost_plan(recipe: Recipe, layout: Layout, assumption: Assumption) -> dict[str, Any]:
    """The plan of a recipe as plain data; see `stage_plan` and `mix_plan` for the rows.

    `totals` sums tokens, flops and gpu_hours over all stages and, under `to_run`, over those not done.
    """
    layout = own_results(recipe, layout)
    states = {row["stage"]: row for row in stage_states(recipe, layout)}
    stages = []
    for name, stage in recipe.stages.items():
        row = {"stage": name, "kind": stage.kind, "state": states[name]["state"]}
        row |= {"why": states[name]["detail"], "steps": states[name]["steps"], **resources(stage)}
        if isinstance(stage, TrainStage):
            row |= stage_plan(recipe, layout, name, row["steps"], assumption)
        elif isinstance(stage, AdoptedStage):
            row |= adopted_plan(recipe, stage)
        else:
            row |= rl_plan(stage)
        stages.append(row)
    left = [row for row in stages if row["state"] != "done"]
    return {
        "recipe": recipe.name,
        "assumption": assumption.words(),
        "stages": stages,
        "mixes": [mix_plan(recipe, name) for name in recipe.mixes],
        "totals": {**totals(stages), "to_run": totals(left)},
    }


def resources(stage: TrainStage | RLStage | AdoptedStage) -> dict[str, int]:
    asked = stage.resources
    return {"nodes": asked.nodes, "gpus": asked.gpus}


def stage_plan(
    recipe: Recipe, layout: Layout, name: str, steps: int | None, assumption: Assumption
) -> dict[str, Any]:
    """Of a training stage: seq_length, global_batch_size, tokens, FLOPs a token both ways, flops (windows
    honoured), tokens_per_second_per_gpu, gpu_hours, hours, checkpoint_bytes, checkpoints_kept, disk_bytes.

    What depends on data that does not exist yet, or on GPUs that are not asked for, is None.
    """
    stage = recipe.train_stages()[name]
    vocabulary = recipe.tokenizer.vocab_size
    each = flops_per_token(recipe.model, vocabulary, stage.seq_length)
    tokens = None if steps is None else steps * stage.global_batch_size * stage.seq_length
    rate = assumption.tokens_per_second or assumption.tflops * 1e12 / each.windowed
    gpus = resources(stage)["gpus"]
    seconds = None if tokens is None or not gpus else tokens / (rate * gpus)
    size = checkpoint_bytes(recipe.model, vocabulary, stage.optimizer)
    kept = checkpoints_kept(recipe, layout, name)
    return {
        "seq_length": stage.seq_length,
        "global_batch_size": stage.global_batch_size,
        "tokens": tokens,
        "flops_per_token_full": each.full,
        "flops_per_token": each.windowed,
        "flops": None if tokens is None else tokens * each.windowed,
        "tokens_per_second_per_gpu": rate if gpus else None,
        "gpu_hours": None if seconds is None else seconds * gpus / 3600,
        "hours": None if seconds is None else seconds / 3600,
        "checkpoint_bytes": size,
        "checkpoints_kept": kept,
        "disk_bytes": None if kept is None else size * kept,
    }


def adopted_plan(recipe: Recipe, stage: AdoptedStage) -> dict[str, Any]:
    """Of adopted weights: where from, and the disk that a converted copy of them takes (links take none)."""
    copied = 2 * parameters(recipe.model, recipe.tokenizer.vocab_size).total  # bf16
    return {
        "adopted": f"{stage.format} weights of {stage.path}",
        **dict.fromkeys(("tokens", "flops", "gpu_hours", "hours")),
        "disk_bytes": copied if stage.format == "huggingface" else 0,
    }


def rl_plan(stage: RLStage) -> dict[str, Any]:
    """Of an RL stage: responses it samples in training and the most tokens they can have, and before it,
    where pass rates choose the prompts, `measured_prompts` (None: their file will say) times
    `measured_samples`. Its GPU-hours hang on how long the responses are, so they are not estimated."""
    responses = stage.steps * stage.batch_size * stage.rollout.sampling.n_samples
    measured: dict[str, int | None] = {}
    if stage.difficulty is not None:
        measured = {
            "measured_prompts": stage.training_prompts(),
            "measured_samples": stage.difficulty.samples,
        }
    return {
        **measured,
        "responses": responses,
        "max_response_tokens": responses * stage.rollout.sampling.max_new_tokens,
        "tokens": None,
        "flops": None,
        "gpu_hours": None,
        "hours": None,
        "disk_bytes": None,
    }


def mix_plan(recipe: Recipe, name: str) -> dict[str, Any]:
    """Of a mix: quota, shards, bytes of its gathered tokens (2 each below 65,500 words, else 4), assumed."""
    mix = recipe.mixes[name]
    width = 2 if recipe.tokenizer.vocab_size < 65_500 else 4
    return {
        "mix": name,
        "tokens": mix.tokens,
        "shards": mix.shards,
        "disk_bytes": mix.tokens * width if mix.tokens else None,
        "assumed": mix.assumed,
        "sources": dict(mix.sources),
    }


def totals(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Sums of what is known."""
    keys = ("tokens", "flops", "gpu_hours", "hours", "disk_bytes")
    return {key: sum(row[key] or 0 for row in rows) for key in keys}
