"""The trainer's side of saving: a manifest for every checkpoint, written before megatron's tracker names it.

megatron-core's `dist_checkpointing.save` writes the files; its caller then writes the tracker. `install` puts
the manifest between the two, so the tracker never points to a checkpoint that is not whole.
"""

import hashlib
import queue
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint import CheckpointException, FileSystemReader
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from zgcm.errors import ZgcmError
from zgcm.io import is_disk_full
from zgcm.model.megatron_files import MODEL_KEYS
from zgcm.rundir import manifest, owner
from zgcm.train import checkpoints


def install(
    run: Path,
    token: str,
    final_iteration: int,
    keep: tuple[int, int | None, int],
    facts: dict[str, Any],
    before_publish: Callable[[], None],
) -> None:
    """Wrap saving. `keep` is (recent, every, reach), see checkpoints.prune; `facts` enter every manifest;
    every rank calls `before_publish` before it writes."""
    from megatron.core import dist_checkpointing
    from megatron.core.dist_checkpointing.strategies import filesystem_async
    from megatron.training import get_args, training

    if not get_args().async_save:
        # It writes in this process; upstream would start a manager process (3 s) to hold its queue.
        filesystem_async._results_queue = queue.Queue()
    save_files, save_checkpoint = dist_checkpointing.save, training.save_checkpoint
    first = torch.distributed.get_rank() == 0

    def publish(path: Path, iteration: int, consumed_samples: int) -> None:
        owner.check(run, token)
        found: dict[str, Any] = {**facts, "iteration": iteration, "consumed_samples": consumed_samples}
        if iteration == final_iteration:
            found["weights_digest"] = weights_digest(path)
        manifest.write_manifest(path, **found)

    def save(state: Any, directory: str, *args: Any, **kwargs: Any) -> Any:
        path, samples = Path(directory), get_args().consumed_train_samples
        iteration = int(path.name.removeprefix("iter_"))
        before_publish()
        if first:
            owner.check(run, token)
            checkpoints.clear_unfinished(path)
        torch.distributed.barrier()
        try:
            request = save_files(state, directory, *args, **kwargs)
        except (Exception, CheckpointException) as error:  # torch derives the latter from BaseException
            if (full := no_room(error, path)) is not None:
                shutil.rmtree(path, ignore_errors=True)  # or it would keep the room from the next attempt
                raise full from error
            raise
        if request is not None:  # an asynchronous save: finalised when all ranks' files are written
            if first:
                request.add_finalize_fn(lambda: publish(path, iteration, samples))
            return request
        torch.distributed.barrier()
        if first:
            publish(path, iteration, samples)
        return None

    def save_and_prune(*args: Any, **kwargs: Any) -> None:
        save_checkpoint(*args, **kwargs)
        if first:
            checkpoints.prune(run / "checkpoints", *keep)

    dist_checkpointing.save = save
    training.save_checkpoint = save_and_prune


def no_room(error: BaseException, checkpoint: Path) -> ZgcmError | None:
    """The save's own error when it was for want of room.

    torch and megatron-core pass on the system's words in part, or not at all. So what counts too is whether
    another checkpoint of the size of the last one would fit.
    """
    free = shutil.disk_usage(checkpoint.parent).free
    if not is_disk_full(error) and free >= last_size(checkpoint.parent):
        return None
    return ZgcmError(
        "The disk is full; this checkpoint was not saved, the one before it is whole",
        where=str(checkpoint),
        found=f"{free / 1e6:.1f} MB free",
        hint="free some space (old runs lie under results/*/runs), or keep fewer checkpoints "
        "(checkpoints.keep_recent, keep_every), then repeat the same command",
    )


def last_size(directory: Path) -> int:
    """Bytes of the newest complete checkpoint; 0 without one."""
    complete = checkpoints.complete_iterations(directory)
    if not complete:
        return 0
    path = checkpoints.checkpoint_path(directory, complete[-1])
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def weights_digest(checkpoint: Path) -> str:
    """SHA-256 over the model's tensors: names, shapes, types and values, in the order of their names.

    Whole tensors are read, so the digest depends neither on the layout of the ranks that wrote them nor on
    host, path or time. The optimizer's state and other objects are left out.
    """
    reader = FileSystemReader(str(checkpoint))
    entries = reader.read_metadata().state_dict_metadata
    digest = hashlib.sha256()
    for name in sorted(entries):
        entry = entries[name]
        if not name.startswith(MODEL_KEYS) or not isinstance(entry, TensorStorageMetadata):
            continue
        tensor = torch.empty(entry.size, dtype=entry.properties.dtype)
        torch.distributed.checkpoint.load({name: tensor}, storage_reader=reader, no_dist=True)
        digest.update(f"{name} {list(entry.size)} {entry.properties.dtype}\n".encode())
        digest.update(tensor.contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()
