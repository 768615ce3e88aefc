"""What `continues: true` needs of adopted weights, beside the weights."""

from typing import Any

from zgcm.config.stages import TrainStage


def continuation_problems(stage: TrainStage, name: str, initial: dict[str, Any]) -> list[str]:
    """Why a stage cannot go on with the optimizer state of adopted weights; `initial` is their `done`."""
    facts = initial.get("adopted")
    if facts is None or not stage.continues:
        return []
    start, problems = initial["stage"], []
    if not facts["optimizer"]:
        problems.append(
            f"stages.{name}.continues: the checkpoint adopted as {start} has no optimizer state to go on "
            "with; leave `continues` out to start with a fresh optimizer"
        )
    if facts["consumed_samples"] is None:
        problems.append(
            f"stages.{name}.continues: the checkpoint adopted as {start} does not say how many samples it "
            "consumed (args.consumed_train_samples), so its data order cannot go on"
        )
    length = stage.schedule.train_iters
    if length is not None and length <= initial["iteration"]:
        problems.append(
            f"stages.{name}.schedule.train_iters: {length} is cumulative and {start} is already at iteration "
            f"{initial['iteration']}; nothing would be trained"
        )
    return problems
