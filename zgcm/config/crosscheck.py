"""What the keys of a recipe must satisfy together, each rule with the reason why it would fail later.

`problems(recipe)` lists every contradiction as `path: message`, so that a user mends them all at once and
nothing of it appears on 192 GPUs first.
"""

import difflib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from zgcm.config.profiles import profile_problems
from zgcm.config.rl import DemoPrompts, RLStage
from zgcm.config.settings import setting_problems
from zgcm.config.stages import AdoptedStage, Resources, TrainStage

if TYPE_CHECKING:
    from zgcm.config.recipe import Recipe

RESERVED_STAGES = ("raw", "corpus", "tokens", "tokenizer", "mixes", "export", "logs", "benchmarks")
"""Directories below results/ that a stage's own directory results/{stage} would collide with."""

KEEP_CONTRADICTIONS = "keep_contradictions"
"""Validation context that lets contradictions pass; see zgcm.config.load.load_with_contradictions."""


def problems(recipe: "Recipe") -> list[str]:
    """Every contradiction; first the names, and the rest only once all names resolve."""
    return unknown_names(recipe) or list(_contradictions(recipe))


def unknown_names(recipe: "Recipe") -> list[str]:
    """Uses of sources, mixes and stages that do not exist. With one of these nothing else is certain."""
    return list(_names(recipe))


def _contradictions(recipe: "Recipe") -> Iterator[str]:
    for name, source in recipe.sources.items():
        yield from (f"sources.{name}.profile: {problem}" for problem in profile_problems(source))
        for key, problem in setting_problems(source):
            yield f"sources.{name}.cleaning.settings.{key}: {problem}"
    for name, stage in recipe.stages.items():
        at = f"stages.{name}"
        if isinstance(stage, AdoptedStage):
            continue
        if isinstance(stage, RLStage):
            yield from _rl(recipe, at, stage)
            continue
        yield from _layout(recipe, at, stage)
        yield from _engine(at, stage)
        yield from _data(recipe, at, stage)
        yield from _continuation(recipe, at, stage)


def _names(recipe: "Recipe") -> Iterator[str]:
    def check(at: str, name: str, known: Any, what: str) -> Iterator[str]:
        if name in known:
            return
        near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
        guess = f"; did you mean {near[0]!r}?" if near else ""
        yield f"{at}: unknown {what} {name!r}; known: {', '.join(known) or 'none'}{guess}"

    if recipe.tokenizer.kind == "train":
        for source in recipe.tokenizer.sources:
            yield from check("tokenizer.sources", source, recipe.sources, "source")
    earlier: list[str] = []
    for name, mix in recipe.mixes.items():
        for source in mix.sources:
            yield from check(f"mixes.{name}.sources.{source}", source, recipe.sources, "source")
        if not any(mix.sources.values()) and not mix.prefixes:
            yield f"mixes.{name}.sources: all weights are 0"
        for other in mix.exclude:
            yield from check(f"mixes.{name}.exclude", other, earlier, "earlier mix")
            if other in earlier and recipe.mixes[other].prefixes:
                yield f"mixes.{name}.exclude: {other} is adopted as tokens; no text is known to leave out"
        earlier.append(name)
    for name in recipe.only:
        yield from check("only", name, recipe.stages, "stage")
    before = list(recipe.adopted_stages())  # they need nothing, so they may stand anywhere
    for name, stage in recipe.stages.items():
        if name in RESERVED_STAGES:
            yield f"stages.{name}: a stage cannot have this name, results/{name} holds something else"
        if stage.init is not None:
            left_out = " (`only` leaves out stages that it does not list)" if recipe.only else ""
            for problem in check(f"stages.{name}.init", stage.init, before, "earlier stage"):
                yield problem + left_out
        for mix_name in stage.mix if isinstance(stage, TrainStage) else ():
            yield from check(f"stages.{name}.mix.{mix_name}", mix_name, recipe.mixes, "mix")
        before.append(name)


def _layout(recipe: "Recipe", at: str, stage: TrainStage) -> Iterator[str]:
    """Ranks must divide what they share: heads, layers, tokens, batches."""
    model, ranks, nodes = recipe.model, stage.parallel, stage.resources
    tp, pp, cp, world = ranks.tensor, ranks.pipeline, ranks.context, nodes.world_size
    for key in ("num_attention_heads", "ffn_hidden_size", "hidden_size"):
        if getattr(model, key) % tp:
            yield f"{at}.parallel.tensor: {tp} does not divide model.{key} {getattr(model, key)}"
    groups = model.num_query_groups
    if groups % tp and tp % groups:
        yield f"{at}.parallel.tensor: {tp} and model.num_query_groups {groups} do not divide one another"
    if model.num_layers % pp:
        yield f"{at}.parallel.pipeline: {pp} does not divide model.num_layers {model.num_layers}"
    if cp > 1 and stage.seq_length % (2 * cp):
        yield (
            f"{at}.seq_length: {stage.seq_length} is not a multiple of 2 x parallel.context = {2 * cp} "
            "(each rank holds two chunks, so that causal work is even)"
        )
    if cp > 1 and ranks.context_comm == "a2a" and (max(groups // tp, 1) % cp):
        yield (
            f"{at}.parallel.context: all-to-all spreads the {max(groups // tp, 1)} key/value heads of a "
            f"tensor-parallel rank over {cp} ranks; use context_comm: p2p or fewer ranks"
        )
    if nodes.gpus_per_node and nodes.processes_per_node != nodes.gpus_per_node:
        yield (
            f"{at}.resources.processes_per_node: {nodes.processes_per_node} processes for "
            f"{nodes.gpus_per_node} GPUs; training runs one process a GPU"
        )
    if world % (tp * pp * cp):
        yield (
            f"{at}.resources: {world} processes are not a multiple of tensor x pipeline x context = "
            f"{tp} x {pp} x {cp}"
        )
        return
    per_step = stage.micro_batch_size * world // (tp * pp * cp)
    if stage.global_batch_size % per_step:
        yield (
            f"{at}.global_batch_size: {stage.global_batch_size} is not a multiple of micro_batch_size x "
            f"data-parallel ranks = {stage.micro_batch_size} x {per_step // stage.micro_batch_size}"
        )


def _engine(at: str, stage: TrainStage) -> Iterator[str]:
    """Megatron accepts these and silently does something else, hence they are refused here."""
    if stage.engine != "local":
        return
    if stage.fp8 is not None:
        yield f"{at}.fp8: needs engine: transformer_engine; Megatron's local layers silently ignore FP8"
    if stage.attention_backend in ("flash", "fused"):
        yield f"{at}.attention_backend: {stage.attention_backend} needs engine: transformer_engine"
    if stage.cross_entropy_fusion == "te":
        yield f"{at}.cross_entropy_fusion: te needs engine: transformer_engine"


def _data(recipe: "Recipe", at: str, stage: TrainStage) -> Iterator[str]:
    if (stage.kind == "sft") != (stage.data_order == "cyclic"):
        yield f"{at}.data_order: found {stage.data_order}; cyclic belongs to SFT, and SFT needs it"
    if stage.data_order == "sequential" and len(stage.mix) > 1:
        yield f"{at}.mix: a blend of {len(stage.mix)} mixes has no order of its own; give one mix or shuffle"
    if stage.kind == "sft" and stage.micro_batch_size != 1:
        yield f"{at}.micro_batch_size: found {stage.micro_batch_size}; packed sequences go one at a time"
    wanted = "packed" if stage.kind == "sft" else "documents"
    for name in stage.mix:
        mix = recipe.mixes[name]
        if mix.kind != wanted:
            yield f"{at}.mix: {name} is a mix of kind {mix.kind}; a stage of kind {stage.kind} needs {wanted}"
        elif mix.kind == "packed" and mix.sequence_length != stage.seq_length:
            yield (
                f"{at}.seq_length: {stage.seq_length} differs from mixes.{name}.sequence_length "
                f"{mix.sequence_length}, to which its conversations are packed"
            )
        elif stage.data_order == "shuffled" and mix.order != "shuffled":
            yield (
                f"{at}.data_order: shuffled would undo the order of mixes.{name} ({mix.order}); "
                "use data_order: sequential"
            )


def _continuation(recipe: "Recipe", at: str, stage: TrainStage) -> Iterator[str]:
    start = recipe.stages.get(stage.init) if stage.init else None
    if isinstance(start, RLStage):
        yield f"{at}.init: {stage.init} is an RL stage; its policy has no Megatron checkpoint to train on"
        return
    if not stage.continues or start is None:
        return
    if isinstance(start, AdoptedStage):
        if start.format == "huggingface":
            yield (
                f"{at}.continues: {stage.init} is adopted from Hugging Face weights, which have no optimizer "
                "state, iteration or consumed samples to go on with; adopt a Megatron checkpoint, or leave "
                "`continues` out"
            )
        return
    own, before = stage.schedule, start.schedule
    for key in ("train_iters", "train_samples"):
        ours, theirs = getattr(own, key), getattr(before, key)
        if (ours is None) != (theirs is None):
            yield f"{at}.schedule: continues {stage.init}, so both must count {key} or neither"
            return
        if ours is not None and ours <= theirs:
            yield (
                f"{at}.schedule.{key}: {ours} is cumulative and {stage.init} already ends at {theirs}; "
                "nothing would be trained"
            )


def _rl(recipe: "Recipe", at: str, stage: RLStage) -> Iterator[str]:
    start = recipe.stages[stage.init]
    rollout, sampling = stage.rollout, stage.rollout.sampling
    longest = stage.max_prompt_tokens + sampling.max_new_tokens
    if longest > stage.learner.max_tokens_per_microbatch:
        yield (
            f"{at}.learner.max_tokens_per_microbatch: {stage.learner.max_tokens_per_microbatch} cannot hold "
            f"the longest trajectory, {stage.max_prompt_tokens} prompt + {sampling.max_new_tokens} new tokens"
        )
    if isinstance(start, TrainStage) and rollout.max_model_len > start.seq_length:
        yield (
            f"{at}.rollout.max_model_len: {rollout.max_model_len} is longer than {stage.init} was trained "
            f"for (seq_length {start.seq_length})"
        )
    for key, wanted in (("rollout", sampling), ("evaluation", stage.evaluation.sampling)):
        if wanted.max_tokens > rollout.max_model_len:
            yield (
                f"{at}.{key}.sampling.max_tokens: {wanted.max_tokens} exceeds rollout.max_model_len "
                f"{rollout.max_model_len}"
            )
    if sampling.n_samples < 2:
        yield f"{at}.rollout.sampling.n_samples: a group of 1 has no spread, so no advantage; use at least 2"
    yield from _rl_steps(at, stage)
    yield from _reward(at, stage)
    if stage.difficulty is not None:
        yield from _difficulty(at, stage.difficulty.resources, rollout.tensor_parallel)
    gpus = stage.resources.nodes * stage.resources.gpus_per_node
    wanted_gpus = rollout.engines * rollout.tensor_parallel + stage.learner.processes
    if gpus and wanted_gpus > gpus:
        yield (
            f"{at}.resources: {gpus} GPUs, but rollout.engines x tensor_parallel + learner.processes = "
            f"{rollout.engines} x {rollout.tensor_parallel} + {stage.learner.processes}"
        )
    yield from _weight_transfer(at, stage)


def _weight_transfer(at: str, stage: RLStage) -> Iterator[str]:
    gpus, nodes = stage.resources.gpus_per_node, stage.resources.nodes
    engines, parallel = stage.rollout.engines, stage.rollout.tensor_parallel
    if gpus and engines > gpus // parallel * nodes:
        yield (
            f"{at}.rollout.tensor_parallel: an engine lies on one node, and {nodes} x {gpus} GPUs hold "
            f"{gpus // parallel * nodes} engines of {parallel}, not {engines}"
        )
    if stage.weight_transport() == "nccl" and gpus == 0:
        yield (
            f"{at}.learner.weight_transfer: nccl moves weights between GPUs, and resources.gpus_per_node is "
            "0; use auto"
        )
    if stage.weight_transport() == "object_store" and parallel > 1:
        yield (
            f"{at}.learner.weight_transfer: object_store does not reach the processes of an engine with "
            f"rollout.tensor_parallel {parallel}; use nccl on GPUs, or tensor_parallel 1"
        )


def _difficulty(at: str, asked: Resources, tensor_parallel: int) -> Iterator[str]:
    """Each job of it runs one engine on one machine."""
    at += ".difficulty.resources"
    if asked.nodes != 1:
        yield f"{at}.nodes: found {asked.nodes}; one job is one engine on one machine, use more `shards`"
    if asked.gpus_per_node and asked.gpus_per_node != tensor_parallel:
        yield (
            f"{at}.gpus_per_node: found {asked.gpus_per_node}; an engine takes rollout.tensor_parallel = "
            f"{tensor_parallel}"
        )


def _rl_steps(at: str, stage: RLStage) -> Iterator[str]:
    rows = stage.training_prompts()
    if rows is None:
        return
    per_epoch = rows // stage.batch_size if stage.drop_last else -(-rows // stage.batch_size)
    if per_epoch == 0:
        yield f"{at}.batch_size: {stage.batch_size} prompts a step, but there are only {rows}"
    elif stage.steps > per_epoch * stage.epochs:
        yield (
            f"{at}.steps: {stage.steps}, but {rows} prompts give {per_epoch} steps an epoch x {stage.epochs} "
            f"epochs = {per_epoch * stage.epochs}"
        )


def _reward(at: str, stage: RLStage) -> Iterator[str]:
    url = stage.reward.sandbox.url
    if stage.domain in ("code", "if") and stage.reward.length_penalty is not None:
        yield f"{at}.reward.length_penalty: only mathematics has one (as published); leave it out"
    if stage.domain in ("math", "code") and stage.reward.open_instruct is not None:
        yield f"{at}.reward.open_instruct: only instructions are checked with it; leave it out"
    if stage.reward.sandbox.token_file is not None and url is None:
        yield f"{at}.reward.sandbox.token_file: is of a service at `url`; the stage's own makes its token"
    if isinstance(stage.prompts, DemoPrompts):
        if stage.runs_programs() and url is not None:
            yield f"{at}.reward.sandbox.url: that service has no tests of demo prompts; leave it out"
    elif stage.domain == "code" and stage.prompts.assets is None and url is None:
        yield (
            f"{at}.prompts.assets: programs cannot be judged without tests; give their directory, or "
            "reward.sandbox.url of a service that has them"
        )
