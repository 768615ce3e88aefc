"""A Megatron checkpoint of anyone's: which directory it is, and what it says of itself. Reads torch_dist.

A torch_dist checkpoint holds whole tensors by name, so ranks that wrote it (TP, PP, CP, DP) do not matter.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zgcm.errors import ZgcmError
from zgcm.io import found_there, read_json

TRACKER = "latest_checkpointed_iteration.txt"
RELEASE = "release"
MODEL_KEYS = ("embedding.", "decoder.", "output_layer.")
"""What the names of the model's tensors begin with; the others are optimizer state."""
EXPECTED = (
    f"a torch_dist checkpoint: a directory with {TRACKER}, or one iteration of it (iter_0001000/, release/)"
)


@dataclass(frozen=True)
class Facts:
    """What a checkpoint tells beside its weights; None where it does not."""

    iteration: int
    consumed_samples: int | None
    optimizer: bool
    """Whether it holds optimizer state."""
    rotary_base: int | None
    context: int | None
    """Sequence length it was trained with last."""
    dtype: str
    """Of its weights: bfloat16 or float32."""
    rows: int
    """Of the embedding, padding included."""


def find_checkpoint(path: Path) -> Path:
    """The directory of one iteration: `path` itself, or what its tracker file names. Raises ZgcmError."""
    if (path / ".metadata").is_file():
        return path
    tracker = path / TRACKER
    if tracker.is_file():
        named = tracker.read_text(errors="replace").strip()
        found = path / (f"iter_{int(named):07d}" if named.isdecimal() else named)
        if (found / ".metadata").is_file():
            return found
        _refuse_legacy(found)
        raise ZgcmError(
            "The tracker file names a checkpoint that is not there",
            where=str(tracker),
            found=named,
            expected=str(found / ".metadata"),
            hint="name an iteration that is there as the path",
        )
    _refuse_legacy(path)
    raise ZgcmError(
        "Not a Megatron checkpoint",
        where=str(path),
        found=found_there(path),
        expected=EXPECTED,
        hint="correct the path, or copy the checkpoint there",
    )


def _refuse_legacy(path: Path) -> None:
    if any(path.glob("mp_rank_*")) or any(path.glob("iter_*/mp_rank_*")):
        raise ZgcmError(
            "A checkpoint in Megatron's older format, one file a rank",
            where=str(path),
            found="mp_rank_*",
            expected="--ckpt-format torch_dist",
            hint="convert it with Megatron: --ckpt-convert-format torch_dist --ckpt-convert-save DIR",
        )


def read_index(checkpoint: Path) -> dict[str, Any]:
    """Name -> what `.metadata` says of it. Raises ZgcmError when it cannot be read."""
    return _metadata(checkpoint).state_dict_metadata


def check_files(checkpoint: Path) -> None:
    """Whether the files are there that the index names, as long as it says. Contents are not read: the
    optimizer state of 7B parameters has 90 GB. Raises ZgcmError naming the first that is not."""
    least = {"metadata.json": 1}
    for place in (_metadata(checkpoint).storage_data or {}).values():
        least[place.relative_path] = max(least.get(place.relative_path, 0), place.offset + place.length)
    sizes = {name: (checkpoint / name).stat().st_size for name in least if (checkpoint / name).is_file()}
    if odd := sorted(name for name in least if sizes.get(name, -1) < least[name]):
        raise ZgcmError(
            f"{len(odd)} of {len(least)} files of the checkpoint are missing or cut short",
            where=str(checkpoint / odd[0]),
            found=f"{sizes[odd[0]]:,} bytes" if odd[0] in sizes else "no such file",
            expected=f"at least {least[odd[0]]:,} bytes",
            hint="bring the checkpoint again from where it came from",
        )
    if (backend := read_json(checkpoint / "metadata.json")["sharded_backend"]) != "torch_dist":
        raise ZgcmError(
            "Not a torch_dist checkpoint",
            where=str(checkpoint / "metadata.json"),
            found=str(backend),
            hint="convert it with Megatron: --ckpt-convert-format torch_dist --ckpt-convert-save DIR",
        )


def _metadata(checkpoint: Path) -> Any:
    from torch.distributed.checkpoint import FileSystemReader

    from zgcm.model.told import reading

    with reading(checkpoint / ".metadata"):
        return FileSystemReader(str(checkpoint)).read_metadata()


def read_facts(checkpoint: Path) -> Facts:
    """Facts of one iteration's directory. Its saved arguments are pickled: read only files that you trust."""
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    entries = read_index(checkpoint)
    embedding = entries.get("embedding.word_embeddings.weight")
    if not isinstance(embedding, TensorStorageMetadata):
        raise ZgcmError(
            "The checkpoint has no word embedding",
            where=str(checkpoint),
            found=", ".join(sorted(entries)[:3]),
            expected="embedding.word_embeddings.weight and the other tensors of a GPT model",
        )
    common = _common_state(checkpoint, entries)
    arguments = common.get("args")
    named = checkpoint.name.removeprefix("iter_")
    return Facts(
        iteration=int(common.get("iteration", named if named.isdigit() else 0)),
        consumed_samples=getattr(arguments, "consumed_train_samples", None),
        optimizer=any(".state." in name and "optimizer" in name for name in entries),
        rotary_base=getattr(arguments, "rotary_base", None),
        context=getattr(arguments, "seq_length", None),
        dtype=str(embedding.properties.dtype).removeprefix("torch."),
        rows=embedding.size[0],
    )


def _common_state(checkpoint: Path, entries: dict[str, Any]) -> dict[str, Any]:
    """What is saved once for all ranks: an entry of the checkpoint, of older ones a file."""
    import torch

    from zgcm.model.told import reading

    key, file = "common_state/shard_0_1", checkpoint / "common.pt"
    with reading(checkpoint), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # unpickling imports megatron-core, which laments what a CPU lacks
        if file.is_file():
            return torch.load(file, map_location="cpu", weights_only=False)
        if key not in entries:
            return {}
        state: dict[str, Any] = {key: [None]}
        reader = torch.distributed.checkpoint.FileSystemReader(str(checkpoint))
        torch.distributed.checkpoint.load(state, storage_reader=reader, no_dist=True)
        return state[key][0] or {}
