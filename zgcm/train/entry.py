"""The trainer process: megatron-core's own `pretrain` with our model, data, Muon splits, loss log and saving.

Started by `zgcm train`, directly or under torch.distributed.run: python -m zgcm.train.entry RUN/trainer.json
The same entry trains every stage, on GPUs and, behind zgcm.train.cpu, on a CPU with gloo.

Axes: B micro-batch, L sequence length.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn


@dataclass(frozen=True)
class Trainer:
    """What the launcher decided; see zgcm.train.run."""

    stage: str
    project: str
    argv: list[str]
    gate: str
    data: dict[str, Any]
    run: str
    iterations: int
    first: int
    """The iteration that the stage starts from: 0, or the end of the stage that it continues."""
    log_interval: int
    prefetch: int | None
    keep: list[int | None]
    """Of checkpoints.prune: recent, every, reach."""
    spikes: dict[str, Any]
    """The recipe's section."""
    decisions: int
    """Decisions on spikes made so far; every checkpoint says how many it knew."""
    left_out: list[list[int]]
    """Spans of iterations (first, last) that learn nothing."""
    flops: dict[str, float]
    """Training FLOPs a token, `full` and `windowed`."""
    trackers: list[str]


def main(path: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the launcher's to answer: it sends SIGTERM
    from zgcm.errors import ZgcmError
    from zgcm.io import refused

    trainer = Trainer(**json.loads(Path(path).read_bytes()))
    try:
        train(trainer)
    except ZgcmError as error:
        leave(trainer, error)
    except OSError as error:
        leave(trainer, refused(error) or error)
    except BaseException as error:
        from torch.distributed.checkpoint import CheckpointException

        from zgcm.train.publish import no_room

        if not isinstance(error, CheckpointException):  # of a save in the background
            raise
        leave(trainer, no_room(error, Path(trainer.run) / "checkpoints") or error)


def leave(trainer: Trainer, error: BaseException) -> NoReturn:
    """End this rank at once: other ranks wait in a collective, do not join them."""
    from zgcm.errors import ZgcmError
    from zgcm.train import hooks
    from zgcm.train.spikes import SpikeError

    if not isinstance(error, ZgcmError):
        raise error
    if isinstance(error, SpikeError):
        hooks.report(trainer, error)
    print(f"zgcm: {error.paragraph()}", file=sys.stderr, flush=True)
    hooks.end_writers()
    os._exit(1)


def train(trainer: Trainer) -> None:
    from zgcm.train import cpu

    on_cpu = cpu.install()
    import torch
    from megatron.core.datasets import utils as dataset_utils
    from megatron.core.enums import ModelType
    from megatron.training import pretrain
    from megatron.training.argument_utils import gpt_config_from_args, pretrain_cfg_container_from_args
    from megatron.training.arguments import parse_and_validate_args

    from zgcm.model.megatron import block_spec, install_packed_rope
    from zgcm.train import hooks, muon, trackers
    from zgcm.train.datasets import DataPlan, build

    if on_cpu:
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    # The wheel ships the compiled helper but not the Makefile that upstream would call to build it.
    dataset_utils.compile_helpers = lambda: None
    if trainer.prefetch:  # upstream's loader has no option for it
        torch.utils.data.DataLoader = partial(  # type: ignore[misc, assignment]
            torch.utils.data.DataLoader, prefetch_factor=trainer.prefetch
        )
    muon.install()
    install_packed_rope()
    sys.argv = ["zgcm train", *trainer.argv]
    args = parse_and_validate_args()
    model = gpt_config_from_args(args)
    model.transformer_layer_spec = layer_spec(block_spec, trainer.gate)
    data = DataPlan(**trainer.data)

    def datasets(samples: tuple[int, int, int]) -> Any:
        hooks.install(trainer, args)  # the process groups exist, training has not begun
        return build(data, samples)

    datasets.is_distributed = True  # type: ignore[attr-defined]
    if args.rank == args.world_size - 1:
        trackers.start(trainer.trackers, trainer.project, trainer.stage, Path(trainer.run))
    step = partial(forward_step, stage=trainer.stage, cp=args.context_parallel_size)
    container = pretrain_cfg_container_from_args(args, model)
    pretrain(container, datasets, ModelType.encoder_or_decoder, step)


def layer_spec(block_spec: Any, gate: str) -> Any:
    def spec(config: Any, vp_stage: int | None = None) -> Any:
        return block_spec(config.transformer, gate, vp_stage)

    return spec


def forward_step(batches: Iterator[dict[str, Any]], model: Any, stage: str, cp: int) -> tuple[Any, Any]:
    """megatron-core's forward step: (per-token losses [B, L], the function that reduces them)."""
    batch = on_device(next(batches))
    packing = packed_params(batch.pop("cu_seqlens", None))
    if cp > 1:
        batch = on_this_context_rank(batch, packing)
    losses_BL = model(
        batch["tokens"],
        batch.get("position_ids"),
        None,
        labels=batch["labels"],
        packed_seq_params=packing,
    )
    return losses_BL, partial(masked_sum, stage, batch["loss_mask"])


def masked_sum(stage: str, loss_mask_BL: Any, losses_BL: Any) -> tuple[Any, Any, dict[str, Any]]:
    """(sum of the learned tokens' losses, their number, the report): gradients are normalised per token.

    Raises SpikeError when the loss is not finite, before it reaches a gradient.
    """
    import torch
    from megatron.training import get_args

    from zgcm.train.spikes import check_finite

    loss = (losses_BL.view(-1).float() * loss_mask_BL.view(-1)).sum()
    if not torch.isfinite(loss):
        check_finite(stage, get_args().curr_iteration + 1, loss=loss.item())
    tokens = loss_mask_BL.sum().to(torch.int)
    report = torch.stack([loss.detach(), tokens.to(loss.dtype)])
    return loss, tokens, {"lm loss": report}


def on_device(batch: dict[str, Any]) -> dict[str, Any]:
    return {key: value.cuda(non_blocking=True) for key, value in batch.items()}


def packed_params(cu_seqlens_1C: Any) -> Any:
    """Boundaries of the packed sequences for the attention kernels; None for plain samples."""
    if cu_seqlens_1C is None:
        return None
    from megatron.core.packed_seq_params import PackedSeqParams

    edges = cu_seqlens_1C[0]
    longest = int(edges.diff().max())
    return PackedSeqParams(
        qkv_format="thd",
        cu_seqlens_q=edges,
        cu_seqlens_kv=edges,
        cu_seqlens_q_padded=edges,
        cu_seqlens_kv_padded=edges,
        max_seqlen_q=longest,
        max_seqlen_kv=longest,
    )


def on_this_context_rank(batch: dict[str, Any], packing: Any) -> dict[str, Any]:
    """The positions of every [B, L] tensor that this context-parallel rank works on."""
    from megatron.core import parallel_state

    from zgcm.model.megatron import rank_positions

    length = batch["tokens"].size(1)
    edges = (0, length) if packing is None else tuple(packing.cu_seqlens_q.tolist())
    size, rank = (
        parallel_state.get_context_parallel_world_size(),
        parallel_state.get_context_parallel_rank(),
    )
    positions = rank_positions(edges, size, rank).to(batch["tokens"].device)
    return {key: value.index_select(1, positions) for key, value in batch.items()}


if __name__ == "__main__":
    main(sys.argv[1])
if __name__ == "__mp_main__":  # a background writer of checkpoints; on a CPU it asks for a GPU too
    from zgcm.train import cpu

    cpu.install()
