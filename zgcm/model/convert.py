"""Megatron torch_dist checkpoint <-> the published tensors; no process group, no Megatron.

Both directions hold one Megatron tensor in memory at a time (and the writer of safetensors one shard). The
vocabulary is padded and trimmed explicitly (`resize_vocabulary`).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, TensorStorageMetadata

from zgcm.config.model import Model
from zgcm.errors import ZgcmError
from zgcm.io import read_json, write_json, write_text
from zgcm.model.megatron_files import MODEL_KEYS
from zgcm.model.published import Tensor as Entry
from zgcm.model.published import shapes, tensors
from zgcm.model.told import reading, writing
from zgcm.model.weights import Named, Weights, open_weights


def resize_vocabulary(weight_VC: torch.Tensor, rows: int, used: int) -> torch.Tensor:
    """Trim or pad an embedding or output head to `rows`; its first `used` rows are tokens that exist.

    New rows copy the last one where that is padding itself: training has pushed its logit down, while a row
    of zeros has logit 0 and takes probability from the tokens. Without trained padding they are zeros.
    Raises ZgcmError when real tokens would be lost.
    """
    have = weight_VC.shape[0]
    if min(rows, have) < used:
        raise ZgcmError(
            "The vocabulary does not fit",
            found=f"{have} rows in the weights, {rows} wanted",
            expected=f"at least {used}, the tokenizer's size",
        )
    if rows <= have:
        return weight_VC[:rows]
    filler = weight_VC[-1:] if have > used else torch.zeros_like(weight_VC[-1:])
    return torch.cat((weight_VC, filler.expand(rows - have, -1)))


def split(entry: Entry, fused: torch.Tensor) -> dict[str, torch.Tensor]:
    """One Megatron tensor -> the published tensors in it."""
    if len(entry.names) == 1:
        return {entry.names[0]: fused}
    blocks = fused.view(entry.groups, sum(entry.rows), -1).split(entry.rows, dim=1)
    shapes = entry.published_shapes()
    return {name: block.reshape(shapes[name]) for name, block in zip(entry.names, blocks, strict=True)}


def fuse(entry: Entry, parts: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Published tensors -> the Megatron tensor that holds them. The inverse of `split`."""
    if len(entry.names) == 1:
        return parts[entry.names[0]]
    blocks = [
        parts[name].view(entry.groups, rows, -1) for name, rows in zip(entry.names, entry.rows, strict=True)
    ]
    return torch.cat(blocks, dim=1).reshape(entry.megatron_shape())


# --- reading Megatron ------------------------------------------------------------------------------------


class _Reader(dcp.FileSystemReader):
    """Reads the index of the checkpoint once, not once per tensor."""

    _index: Metadata | None = None

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        self._index = self._index or super().read_metadata(*args, **kwargs)
        return self._index


def read_megatron(checkpoint: Path, model: Model, vocabulary: int, rows: int) -> Named:
    """Published tensors of a torch_dist checkpoint, in file order and in the dtype they were saved in.

    `vocabulary` is the tokenizer's size, `rows` what the published embedding is padded to. Checks the whole
    index first. Raises ZgcmError when the checkpoint is not of this model.
    """
    reader = _Reader(checkpoint)
    try:
        index = reader.read_metadata().state_dict_metadata
    except FileNotFoundError as error:
        raise ZgcmError(
            "Not a torch_dist checkpoint: it has no .metadata",
            where=str(checkpoint),
            expected="Megatron's --ckpt-format torch_dist",
        ) from error
    entries = list(tensors(model, vocabulary))
    check_index(checkpoint, index, entries)
    for entry in entries:
        stored = index[entry.key]
        assert isinstance(stored, TensorStorageMetadata)
        fused = torch.empty(stored.size, dtype=stored.properties.dtype)
        with reading(checkpoint):
            dcp.load({entry.key: fused}, storage_reader=reader, no_dist=True)
        if entry.vocabulary:
            fused = resize_vocabulary(fused, rows, vocabulary)
        yield from split(entry, fused).items()


def check_index(checkpoint: Path, index: dict[str, Any], entries: list[Entry]) -> None:
    """Compare the names and shapes that a checkpoint lists with those of the model. Raises ZgcmError."""
    stored = {
        key: tuple(item.size)
        for key, item in index.items()
        if isinstance(item, TensorStorageMetadata) and key.startswith(MODEL_KEYS)
    }
    wanted = {entry.key: entry for entry in entries}
    hint = "export with the recipe that trained it"
    for what, names in (
        ("lacks", wanted.keys() - stored.keys()),
        ("has unknown", stored.keys() - wanted.keys()),
    ):
        if names:
            raise ZgcmError(
                f"The checkpoint {what} {len(names)} tensors of this model",
                where=str(checkpoint),
                found=", ".join(sorted(names)[:3]),
                expected=f"{len(wanted)} tensors, each layer under its own key (decoder.layers.0.…)",
                hint=hint,
            )
    for key, entry in wanted.items():
        shape = entry.megatron_shape()
        enough_rows = entry.vocabulary and stored[key][0] >= shape[0]
        if stored[key] != shape and not (enough_rows and stored[key][1:] == shape[1:]):
            raise ZgcmError(
                f"Tensor {key} has another shape than the recipe's model",
                where=str(checkpoint),
                found=str(stored[key]),
                expected=str(shape),
                hint=hint,
            )


# --- writing Megatron ------------------------------------------------------------------------------------


class _LazyPlanner(dcp.DefaultSavePlanner):
    """Plans with meta tensors and makes each real one only when it is written."""

    def __init__(self, weights: Weights, entries: dict[str, Entry], vocabulary: int) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)  # as Megatron reads
        self.weights, self.entries, self.vocabulary = weights, entries, vocabulary

    def lookup_object(self, index: MetadataIndex) -> Any:
        if index.fqn not in self.entries:
            return super().lookup_object(index)
        entry = self.entries[index.fqn]
        parts = {name: self.weights.read(name) for name in entry.names}
        if entry.vocabulary:
            name = entry.names[0]
            parts[name] = resize_vocabulary(parts[name], self.vocabulary, self.vocabulary)
        return fuse(entry, parts)


def write_megatron(directory: Path, checkpoint: Path, model: Model, vocabulary: int) -> None:
    """Make a Megatron checkpoint (weights only) of a Hugging Face directory, for `--load ... --finetune`.

    `checkpoint` is the directory that holds `release/` and the tracker file. Megatron itself pads the
    embedding to its own multiple when it loads.
    """
    rows = read_json(directory / "config.json")["vocab_size"]
    weights = open_weights(directory, shapes(model, rows))
    entries = {entry.key: entry for entry in tensors(model, vocabulary)}
    state: dict[str, Any] = {
        key: torch.empty(entry.megatron_shape(), dtype=weights.dtype, device="meta")
        for key, entry in entries.items()
    }
    # Megatron stores one object per linear layer, empty unless FP8 is on, and wants it back.
    linear = ("self_attention.linear_qkv", "self_attention.linear_proj", "mlp.linear_fc1", "mlp.linear_fc2")
    for layer in range(model.num_layers):
        for name in (*linear, "self_attention.core_attention"):
            state[f"decoder.layers.{layer}.{name}._extra_state/shard_0_1"] = [None]
    state["common_state/shard_0_1"] = [{"iteration": 0, "checkpoint_version": 3.0}]
    release = checkpoint / "release"
    release.mkdir(parents=True)
    with writing(release):
        dcp.save(
            state,
            # One file per tensor: torch keeps all tensors of a file in memory until the file is written.
            storage_writer=dcp.FileSystemWriter(release, single_file_per_rank=False),
            planner=_LazyPlanner(weights, entries, vocabulary),
            no_dist=True,
        )
    write_json(release / "metadata.json", {"sharded_backend": "torch_dist", "sharded_backend_version": 1})
    write_text(checkpoint / "latest_checkpointed_iteration.txt", "release")
