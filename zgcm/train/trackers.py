"""Experiment trackers: TensorBoard always; Weights & Biases and SwanLab when the recipe asks for them.

megatron-core writes its curves to TensorBoard and W&B itself; SwanLab reads along what goes to TensorBoard.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from zgcm.errors import ZgcmError
from zgcm.train.packages import is_installed
from zgcm.train.speed import Sink

if TYPE_CHECKING:
    from zgcm.config.stages import TrainStage


def check(stage: "TrainStage", name: str) -> None:
    """Raises ZgcmError when a tracker is asked for that is not installed."""
    missing = [tracker for tracker in stage.trackers if not is_installed(tracker)]
    if missing:
        raise ZgcmError(
            "An experiment tracker is not installed",
            where=f"stages.{name}.trackers",
            found=", ".join(stage.trackers),
            expected=f"installed packages; missing: {', '.join(missing)}",
            hint=f"pip install {' '.join(missing)}, or take it out of the list",
        )


def options(stage: "TrainStage", project: str, name: str, run: Path) -> list[list[Any]]:
    """megatron-core's options for W&B: the recipe is the project, the stage and its run the experiment."""
    if "wandb" not in stage.trackers:
        return []
    names = ["--wandb-project", project, "--wandb-exp-name", f"{name}-{run.name}"]
    return [[*names, "--wandb-save-dir", run / "wandb"]]


def start(asked: list[str], project: str, name: str, run: Path) -> None:
    """On the rank that writes TensorBoard, before its writer exists: SwanLab's own adapter follows it."""
    if "swanlab" not in asked:
        return
    import swanlab

    swanlab.init(project=project, experiment_name=f"{name}-{run.name}", logdir=str(run / "swanlab"))
    swanlab.sync_tensorboard_torch()


def sinks() -> tuple[Sink, ...]:
    """Where throughput goes beside speed.jsonl: upstream's own writers, on the rank that has them."""
    from megatron.training.global_vars import get_tensorboard_writer, get_wandb_writer

    board, wandb = get_tensorboard_writer(), get_wandb_writer()
    found: list[Sink] = []
    if board is not None:

        def to_board(values: dict[str, float], iteration: int) -> None:
            for key, value in values.items():
                board.add_scalar(key.replace("_", "-"), value, iteration)

        found.append(to_board)
    if wandb is not None:
        found.append(lambda values, iteration: wandb.log(values, iteration))
    return tuple(found)
