"""Part `reshard`: a checkpoint saved in one layout, loaded in others, saved again; all tensors must be equal.

The real trainer does both: two steps and a save in the stage's layout, then no step and a save in the other.
Model and optimizer are compared tensor by tensor, as whole tensors, bit for bit.
"""

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zgcm.config.model import Model
from zgcm.config.recipe import deep_merge
from zgcm.config.stages import TrainStage
from zgcm.devices import gpus
from zgcm.errors import ZgcmError
from zgcm.preflight.answer import Answer, Task, failed, not_applicable, ran
from zgcm.preflight.trial import run_trial, trial_stage
from zgcm.train.checkpoints import link_initial

STEPS = 2
PADDED = ("embedding.word_embeddings.weight", "output_layer.weight")
"""Rows of these are padded to a multiple of the tensor-parallel size, so their number may differ."""


@dataclass
class Comparison:
    tensors: int = 0
    bytes: int = 0
    different: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def check(task: Task) -> Answer:
    stages = task.recipe.train_stages()
    if not stages:
        return not_applicable("the recipe has no stage that megatron-core trains")
    name, stage = next(iter(stages.items()))
    if stage.engine == "transformer_engine" and not gpus()["gpus"]:
        return not_applicable("there is no GPU for Transformer Engine's layers")
    saved = trial_stage(stage, STEPS)
    others = other_layouts(saved, task.recipe.model)
    if not others:
        return not_applicable(f"{name} has no other layout on one node")
    first = run_trial(
        task.recipe, saved, task.work / "saved", task.logs / "reshard_saved.log", save=True
    ).checkpoint
    assert first is not None
    initial = link_initial(task.work / "initial", first)
    figures: dict[str, Any] = {"stage": name, "saved": layout_words(saved), "loaded": {}}
    problems = []
    for index, changes in enumerate(others):
        loaded = TrainStage.model_validate(deep_merge(saved.model_dump(), changes))
        label = layout_words(loaded)
        try:
            work, log = task.work / f"loaded_{index}", task.logs / f"reshard_loaded_{index}.log"
            again = run_trial(task.recipe, loaded, work, log, save=True, load=initial)
        except ZgcmError as error:
            problems.append(f"{label}: {error.paragraph()}")
            continue
        assert again.checkpoint is not None
        found = compare(first, again.checkpoint)
        figures["loaded"][label] = {"tensors": found.tensors, "bytes": found.bytes}
        if found.different or found.missing:
            problems.append(f"{label}: " + difference_words(found))
    if problems:
        return failed(f"saved as {figures['saved']}; " + "; ".join(problems), **figures)
    counts = next(iter(figures["loaded"].values()))
    return ran(
        f"saved as {figures['saved']}, loaded as {' and as '.join(figures['loaded'])}: "
        f"{counts['tensors']} tensors, {counts['bytes'] / 1e6:.1f} MB, all equal",
        **figures,
    )


def other_layouts(stage: TrainStage, model: Model) -> list[dict[str, Any]]:
    """Changes to another tensor- and to another pipeline-parallel size, as many as one node has room for.

    A CPU stage of one process gets a second one.
    """
    parallel, width = stage.parallel, stage.resources.processes_per_node
    if width == 1 and not stage.resources.gpus_per_node:
        width = 2
    tensor = [size for size in (parallel.tensor * 2, parallel.tensor // 2) if fits_tensor(size, model)]
    pipeline = [
        size for size in (parallel.pipeline * 2, parallel.pipeline // 2) if fits_pipeline(size, model)
    ]
    wanted = [
        *({"tensor": size, "pipeline": parallel.pipeline} for size in tensor),
        *({"tensor": parallel.tensor, "pipeline": size} for size in pipeline),
    ]
    found: dict[bool, dict[str, Any]] = {}
    for sizes in wanted:
        ranks = sizes["tensor"] * sizes["pipeline"]
        context = parallel.context if width % (ranks * parallel.context) == 0 else 1
        if width % (ranks * context) == 0:
            changed_tensor = sizes["tensor"] != parallel.tensor
            changes = {"parallel": {**sizes, "context": context}, "resources": {"processes_per_node": width}}
            found.setdefault(changed_tensor, changes)
    return list(found.values())


def fits_tensor(size: int, model: Model) -> bool:
    return size >= 1 and model.num_query_groups % size == 0 and model.num_attention_heads % size == 0


def fits_pipeline(size: int, model: Model) -> bool:
    return size >= 1 and model.num_layers % size == 0


def layout_words(stage: TrainStage) -> str:
    sizes = stage.parallel
    return f"TP{sizes.tensor} PP{sizes.pipeline} CP{sizes.context} DP{stage.data_parallel_ranks}"


def compare(one: Path, other: Path) -> Comparison:
    """Two distributed checkpoints, tensor by tensor; one pair in memory at a time."""
    import torch
    from torch.distributed.checkpoint import FileSystemReader
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    from zgcm.model.told import reading

    readers = [FileSystemReader(str(path)) for path in (one, other)]
    entries = [
        {
            key: entry
            for key, entry in reader.read_metadata().state_dict_metadata.items()
            if isinstance(entry, TensorStorageMetadata)
        }
        for reader in readers
    ]
    found = Comparison(missing=sorted(entries[0].keys() ^ entries[1].keys()))
    for key in sorted(entries[0].keys() & entries[1].keys()):
        pair = []
        for reader, known in zip(readers, entries, strict=True):
            tensor = torch.empty(known[key].size, dtype=known[key].properties.dtype)
            # The warning is that there is no process group: none is needed.
            with warnings.catch_warnings(action="ignore"), reading(Path(reader.path)):
                torch.distributed.checkpoint.load({key: tensor}, storage_reader=reader, no_dist=True)
            pair.append(tensor)
        if key.endswith(PADDED):
            rows = min(len(tensor) for tensor in pair)
            pair = [tensor[:rows] for tensor in pair]
        found.tensors += 1
        found.bytes += pair[0].numel() * pair[0].element_size()
        if not equal(*pair):
            found.different.append(key)
    return found


def equal(one: Any, other: Any) -> bool:
    import torch

    return one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)


def difference_words(found: Comparison) -> str:
    parts = []
    if found.different:
        parts.append(f"{len(found.different)} of {found.tensors} tensors differ, first {found.different[0]}")
    if found.missing:
        parts.append(f"{len(found.missing)} tensors are in one checkpoint only, first {found.missing[0]}")
    return ", ".join(parts)
