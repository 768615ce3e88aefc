"""Our part of megatron-core's training loop: loss log, spikes, batches left out, manifests for checkpoints.

Upstream's functions are wrapped by name in `megatron.training.training`, where its loop looks them up.
"""

import gc
import multiprocessing
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from zgcm.rundir import owner
from zgcm.train import checkpoints, losslog, spikes, stopped

if TYPE_CHECKING:
    from zgcm.train.entry import Trainer


def install(trainer: "Trainer", args: Any) -> None:
    """After the process groups exist, before training begins."""
    from zgcm.train import publish

    gc.freeze()  # what is here now lives as long as the training; the collector need not visit it again
    run, token = Path(trainer.run), os.environ["ZGCM_OWNER_TOKEN"]
    log = None
    if args.rank == args.world_size - 1:  # where upstream writes its log and TensorBoard: it knows the loss
        log = losslog.LossLog(run, args.seq_length)
        watch(trainer, args, log, token)
    leave_out([range(first, last + 1) for first, last in trainer.left_out])
    recent, every, reach = trainer.keep
    publish.install(
        run,
        token,
        trainer.iterations,
        (int(recent or 1), every, int(reach or 0)),
        {"spikes": trainer.decisions},
        log.sync if log else lambda: None,
    )


def watch(trainer: "Trainer", args: Any, log: losslog.LossLog, token: str) -> None:
    """Log every iteration that learned, and look for spikes."""
    import torch
    from megatron.training import training

    from zgcm.train import speed, trackers

    run = Path(trainer.run)
    on_gpu = torch.cuda.is_available()
    pace = speed.Speed(
        run,
        trainer.stage,
        trainer.iterations,
        trainer.log_interval,
        flops_full=trainer.flops["full"],
        flops_windowed=trainer.flops["windowed"],
        ranks=args.world_size,
        first=trainer.first,
        peak=speed.peak_tflops(torch.cuda.get_device_name()) if on_gpu else None,
        sinks=trackers.sinks(),
    )
    settings: Any = SimpleNamespace(**trainer.spikes)  # config.stages needs pydantic: 0.5 s of every start
    detector = spikes.Detector(settings, losslog.read_losses(run))
    upstream_log = training.training_log

    def training_log(
        loss: dict[str, Any], total: Any, rate: float, iteration: int, *more: Any, **named: Any
    ) -> Any:
        skipped, grad_norm = more[2], more[3]
        if not skipped:
            values = {"loss": loss["lm loss"].item(), "grad_norm": float(grad_norm)}
            spikes.check_finite(trainer.stage, iteration, **values)
            record = log.record(iteration, args.consumed_train_samples, rate, **values)
            if spike := detector.see(record):
                raise spikes.SpikeError(trainer.stage, spike)
            pace.see(record)
        if iteration % trainer.log_interval == 0:
            owner.check(run, token)
        return upstream_log(loss, total, rate, iteration, *more, **named)

    training.training_log = training_log


def leave_out(spans: list[range]) -> None:
    """Let the iterations of `spans` read their batches and learn nothing; data and learning rate go on.

    Upstream's --iterations-to-skip does neither log nor save at such an iteration, holds the learning rate
    back, and reads on the first tensor-parallel rank alone, while our batches are read by each.
    """
    from megatron.core.num_microbatches_calculator import get_num_microbatches
    from megatron.training import get_args, training

    if not spans:
        return
    upstream_step = training.train_step

    def train_step(
        forward_step: Any, batches: Any, model: Any, optimizer: Any, scheduler: Any, *more: Any, **named: Any
    ) -> Any:
        if not any(named["iteration"] + 1 in span for span in spans):
            return upstream_step(forward_step, batches, model, optimizer, scheduler, *more, **named)
        micro_batches = get_num_microbatches()
        for iterator in batches if isinstance(batches, list) else [batches]:
            read(iterator, micro_batches)
        args = get_args()
        scheduler.step(increment=micro_batches * args.micro_batch_size * args.data_parallel_size)
        return {}, 1, False, False, 0, None, None, 0

    training.train_step = train_step


def read(batches: Iterator[Any], count: int) -> None:
    for _ in range(count):
        next(batches)


def report(trainer: "Trainer", error: spikes.SpikeError) -> None:
    """Leave the reason of the end in the run directory: for the launcher to decide on, or for a person."""
    run = Path(trainer.run)
    if trainer.spikes["policy"] != "stop":
        spikes.report(run, error.spike)
        return
    before = [i for i in checkpoints.complete_iterations(run / "checkpoints") if i < error.spike.first]
    stopped.write(run, spikes.SpikeError(error.stage, error.spike, before[-1] if before else None))


def end_writers() -> None:
    """Processes that write checkpoints in the background do not outlive their trainer."""
    for child in multiprocessing.active_children():
        child.kill()
