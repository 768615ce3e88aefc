"""What a recipe amounts to before anything runs: parameters, steps, tokens, ranks.

Formulas reproduce the published counts: iterations and tokens, parameters, SFT.
"""

from dataclasses import dataclass
from fractions import Fraction

from zgcm.config.model import Model
from zgcm.config.recipe import Recipe
from zgcm.config.stages import TrainStage


@dataclass(frozen=True)
class StagePlan:
    """Of a training stage. None where the recipe alone cannot say (SFT without expected_train_tokens)."""

    iterations: int | None
    """New iterations of this stage."""
    last_iteration: int | None
    """Iteration its final checkpoint carries; more than `iterations` when it continues another stage."""
    samples: int | None
    tokens: int | None
    warmup_iterations: int
    data_parallel: int
    micro_batches: int
    """Forward passes a rank does for one step (gradient accumulation)."""


def stage_plan(recipe: Recipe, name: str) -> StagePlan:
    stage = recipe.stages[name]
    assert isinstance(stage, TrainStage)
    schedule, batch = stage.schedule, stage.global_batch_size
    last = final_iteration(stage)
    start = recipe.stages[stage.init] if stage.continues and stage.init else None
    done = final_iteration(start) or 0 if isinstance(start, TrainStage) else 0
    new = None if last is None else last - done
    samples = None if new is None else new * batch
    data_parallel = stage.data_parallel_ranks
    return StagePlan(
        iterations=new,
        last_iteration=last,
        samples=samples,
        tokens=None if samples is None else samples * stage.seq_length,
        warmup_iterations=schedule.lr_warmup_iters or schedule.lr_warmup_samples // batch,
        data_parallel=data_parallel,
        micro_batches=batch // (stage.micro_batch_size * data_parallel),
    )


def final_iteration(stage: TrainStage) -> int | None:
    """The iteration at which a stage ends, as Megatron counts: cumulative for a stage that continues."""
    schedule = stage.schedule
    if schedule.train_iters is not None:
        return schedule.train_iters
    if schedule.train_samples is not None:
        return schedule.train_samples // stage.global_batch_size
    if stage.expected_train_tokens is None or schedule.epochs is None:
        return None
    return epoch_iterations(
        stage.expected_train_tokens, schedule.epochs, stage.seq_length, stage.global_batch_size
    )


def epoch_iterations(tokens: int, epochs: int, seq_length: int, global_batch_size: int) -> int:
    """Iterations of `epochs` passes over `tokens`, rounded down (as published)."""
    return tokens * epochs // (seq_length * global_batch_size)


def passes_over_data(recipe: Recipe, name: str) -> float | None:
    """Planned tokens over the quota of the stage's mixes; more than 1 repeats data. None if unknown."""
    stage = recipe.stages[name]
    assert isinstance(stage, TrainStage)
    tokens = stage_plan(recipe, name).tokens
    quotas = [recipe.mixes[mix].tokens for mix in stage.mix]
    if tokens is None or None in quotas:
        return None
    return tokens / sum(quota for quota in quotas if quota is not None)


def blend_shares(recipe: Recipe, name: str) -> dict[str, Fraction]:
    """Mix -> share of the samples: each shard of a mix carries the weight that the stage gives the mix."""
    stage = recipe.stages[name]
    assert isinstance(stage, TrainStage)
    weights = {mix: Fraction(weight) * recipe.mixes[mix].shards for mix, weight in stage.mix.items()}
    return {mix: weight / sum(weights.values()) for mix, weight in weights.items()}


def is_global_layer(model: Model, layer: int) -> bool:
    """Whether a layer, counted from 1, sees everything instead of the window."""
    return layer % model.window_attn_skip_freq == 0


def is_gated_layer(model: Model, layer: int) -> bool:
    gate = model.attention_output_gate
    return gate == "all" or (gate == "window" and not is_global_layer(model, layer))


@dataclass(frozen=True)
class Parameters:
    matrices: int
    """In the layers' matrices; Muon's, if the optimizer is Muon."""
    others: int
    """Embedding, output head and norms; Adam's."""

    @property
    def total(self) -> int:
        return self.matrices + self.others


def parameters(model: Model, vocab_size: int) -> Parameters:
    """Trainable parameters for an unpadded vocabulary; biases do not exist, embeddings are not tied."""
    hidden, head = model.hidden_size, model.kv_channels
    queries, keys = model.num_attention_heads * head, model.num_query_groups * head
    gated = sum(is_gated_layer(model, layer) for layer in range(1, model.num_layers + 1))
    layer = 3 * hidden * model.ffn_hidden_size + hidden * (queries + 2 * keys) + queries * hidden
    norms = 2 * hidden + (2 * head if model.qk_layernorm else 0)
    return Parameters(
        matrices=model.num_layers * layer + gated * hidden * queries,
        others=2 * vocab_size * hidden + model.num_layers * norms + hidden,
    )
