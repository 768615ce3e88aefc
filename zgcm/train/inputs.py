"""What a stage reads: its mix shards, the tokenizer and the stage before, by what their manifests say.

`gather` finds everything that is wrong before any process starts and says it at once.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zgcm.config.recipe import Recipe
from zgcm.config.stages import TrainStage
from zgcm.errors import ZgcmError
from zgcm.io import read_json, sha256_file
from zgcm.layout import Layout, mix_shards
from zgcm.rundir import manifest
from zgcm.train import shards
from zgcm.train.arguments import only_mix, train_stage
from zgcm.train.continuation import continuation_problems
from zgcm.train.packages import is_installed

EOD = "<|endoftext|>"


@dataclass(frozen=True)
class Inputs:
    """Everything outside the recipe that decides the stage's result, and where it lies."""

    digests: dict[str, str]
    prefixes: list[str]
    weights: list[float]
    tokens: int
    """Training tokens in the mix shards (SFT: packed ones, without padding)."""
    eod: int
    initial: dict[str, Any] | None
    """The `done` of the stage whose weights it starts from."""


def gather(recipe: Recipe, layout: Layout, name: str) -> Inputs:
    """Raises ZgcmError listing every problem."""
    inputs, problems = examine(recipe, layout, name)
    if problems:
        raise ZgcmError(
            f"Stage {name} cannot start; nothing was started. "
            + (problems[0] if len(problems) == 1 else "\n  - " + "\n  - ".join(problems))
        )
    return inputs


def examine(recipe: Recipe, layout: Layout, name: str) -> tuple[Inputs, list[str]]:
    """What the stage reads, as far as it is there, and every problem with it."""
    stage, problems = train_stage(recipe, name), []
    problems += engine_problems(stage, name)
    problems += layout_problems(recipe, stage, name)
    digests, prefixes, weights, tokens = {}, [], [], 0
    if stage.kind == "sft":
        only_mix(stage, name)
    for mix, weight in stage.mix.items():
        missing = missing_shards(recipe, layout, mix)
        problems += missing_problem(layout, mix, missing)
        for shard in mix_shards(recipe, mix):
            if shard in missing:
                continue
            try:
                report = shard_report(layout, stage, mix, shard)
            except ZgcmError as error:
                problems.append(error.paragraph())
                continue
            digests[f"{mix}/{shard}"] = sha256_file(layout.mix(mix) / f"{shard}.json")
            prefix = (
                layout.packed_prefix(mix, shard) if stage.kind == "sft" else layout.mix_prefix(mix, shard)
            )
            prefixes.append(str(prefix))
            weights.append(weight)
            tokens += report.get("tokens", 0)
    eod = 0
    try:
        digests["tokenizer"] = tokenizer_digest(layout.tokenizer)
        eod = token_id(layout.tokenizer, EOD)
    except ZgcmError as error:
        problems.append(error.paragraph())
    initial = None
    if stage.init is not None:
        try:
            initial = read_initial(layout, stage.init)
            digests[f"weights of {stage.init}"] = initial["weights_digest"]
            problems += continuation_problems(stage, name, initial)
        except ZgcmError as error:
            problems.append(error.paragraph())
    if not problems and stage.kind == "pretrain":
        problems += size_problems(stage, name, tokens)
    return Inputs(digests, prefixes, weights, tokens, eod, initial), problems


def engine_problems(stage: TrainStage, name: str) -> list[str]:
    """An engine asked for where it is not installed; megatron-core would fail with a riddle."""
    if stage.engine == "local" or is_installed("transformer_engine"):
        return []
    asked = "engine: transformer_engine" + (" and FP8" if stage.fp8 else "")
    return [
        f"stages.{name} asks for {asked}, and Transformer Engine is not installed here; it belongs to "
        "envs/megatron.yaml. A machine without GPUs trains with engine: local and no fp8."
    ]


def layout_problems(recipe: Recipe, stage: TrainStage, name: str) -> list[str]:
    """What the recipe's own checks leave open."""
    problems, tensor, groups = [], stage.parallel.tensor, recipe.model.num_query_groups
    if stage.optimizer.kind == "muon" and tensor > groups:
        problems.append(
            f"stages.{name}.parallel.tensor: Muon needs whole query groups on a rank, so at most {groups}, "
            f"found {tensor}."
        )
    if stage.eval_iters and not stage.shares[1]:
        problems.append(f"stages.{name}.data_split: eval_iters needs a share for validation.")
    if stage.data_order == "sequential" and any(stage.shares[1:]):
        problems.append(f"stages.{name}.data_split: a sequential order has no validation share; use 100,0,0.")
    return problems


def size_problems(stage: TrainStage, name: str, tokens: int) -> list[str]:
    batch = stage.global_batch_size * stage.seq_length
    if tokens > batch:
        return []
    return [
        f"The corpus is too small for one batch: mixes {', '.join(stage.mix)} have {tokens} tokens, one "
        f"batch of stages.{name} takes {batch} + 1 (global_batch_size x seq_length). Use more data or a "
        "smaller batch."
    ]


def missing_shards(recipe: Recipe, layout: Layout, mix: str) -> list[str]:
    return [shard for shard in mix_shards(recipe, mix) if not (layout.mix(mix) / f"{shard}.json").is_file()]


def missing_problem(layout: Layout, mix: str, missing: list[str]) -> list[str]:
    """One line for all missing shards of a mix: there may be hundreds."""
    if not missing:
        return []
    first = layout.mix(mix) / f"{missing[0]}.json"
    more = f" and {len(missing) - 1} more, to {missing[-1]}" if len(missing) > 1 else ""
    return [
        f"Shards of mix {mix} are missing. at: {first}{more}. "
        "to do: let the workflow make them, by repeating your snakemake or zgcm run command."
    ]


def shard_report(layout: Layout, stage: TrainStage, mix: str, shard: str) -> dict[str, Any]:
    """The shard's manifest, its files checked against it. Raises ZgcmError."""
    path, packed = layout.mix(mix) / f"{shard}.json", stage.kind == "sft"
    report = read_json(path)
    prefix = layout.packed_prefix(mix, shard) if packed else layout.mix_prefix(mix, shard)
    shards.check_files(path, report, prefix, packed)
    return report


def tokenizer_digest(directory: Path) -> str:
    if not manifest.is_complete(directory):
        raise ZgcmError("The tokenizer is missing", where=str(directory), hint="make it with: zgcm tokenizer")
    return read_json(directory / manifest.NAME)["digest"]


def token_id(directory: Path, token: str) -> int:
    """Id of a special token, from tokenizer.json alone. Raises ZgcmError."""
    path = directory / "tokenizer.json"
    for item in read_json(path)["added_tokens"]:
        if item["content"] == token:
            return int(item["id"])
    raise ZgcmError(f"The tokenizer has no token {token}", where=str(path))


def read_initial(layout: Layout, init: str) -> dict[str, Any]:
    """The `done` of the stage before, its checkpoint checked for presence. Raises ZgcmError."""
    done = layout.done(init)
    if not done.exists():
        hint = f"run: zgcm train {init} (or, where it is adopted: zgcm adopt {init})"
        raise ZgcmError("The stage before has not finished", where=str(done), hint=hint)
    initial = read_json(done)
    checkpoint = layout.root / initial["checkpoint"]
    if not manifest.is_complete(checkpoint):
        raise ZgcmError(
            "The checkpoint of the stage before is gone",
            where=str(checkpoint),
            hint=f"restore it, or remove {done} and train {init} again",
        )
    if "adopted" in initial:
        check_adopted(checkpoint)
    return initial


def check_adopted(checkpoint: Path) -> None:
    """Adopted files may be links to where the user has moved or changed them. Raises ZgcmError."""
    for name, expected in read_json(checkpoint / manifest.NAME)["files"].items():
        file = checkpoint / name
        size = file.stat().st_size if file.is_file() else None
        if size != expected["bytes"]:
            raise ZgcmError(
                "A file of the adopted weights is gone or has changed",
                where=str(file.resolve()),
                found="no such file" if size is None else f"{size:,} bytes",
                expected=f"{expected['bytes']:,} bytes",
                hint="put it back, or adopt the weights again from where they are now (`path` in the recipe)",
            )
