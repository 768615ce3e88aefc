"""What the keys of a recipe must satisfy together, each rule with the reason why it would fail later.

`problems(recipe)` lists every contradiction as `path: message`, so that a user mends them all at once and
nothing of it appears on 192 GPUs first.
"""

import difflib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from zgcm.config.crosscheck_machines import rank_problems, rl_machine_problems
from zgcm.config.crosscheck_rl import rl_problems
from zgcm.config.profiles import profile_problems
from zgcm.config.rl import RLStage
from zgcm.config.settings import setting_problems
from zgcm.config.stages import AdoptedStage, TrainStage

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
            yield from rl_problems(recipe, at, stage)
            yield from rl_machine_problems(recipe.model, at, stage)
            continue
        yield from rank_problems(recipe.model, at, stage)
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
