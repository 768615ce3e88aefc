"""Evaluations of an RL stage: mean raw reward on held-out prompts, and its standard error, by version."""

from dataclasses import dataclass
from typing import Any

from zgcm.io import read_json
from zgcm.layout import Layout
from zgcm.rundir import runs


@dataclass(frozen=True)
class Evaluation:
    version: int
    mean: float
    error: float
    """One standard error of the mean."""
    completions: int


def evaluations(layout: Layout, stage: str) -> list[Evaluation]:
    """From the markers of the stage's run, in order of version; of an unfinished run those so far."""
    run = runs.current_run(layout, stage)
    if run is None:
        return []
    markers = (read_json(path) for path in (run / "evaluations").glob("version_*.json"))
    return sorted((read_evaluation(marker) for marker in markers), key=lambda item: item.version)


def read_evaluation(marker: dict[str, Any]) -> Evaluation:
    """Of one marker. Its standard error is clustered by prompt: completions of one prompt are alike."""
    stats = marker["stats"]
    return Evaluation(
        version=marker["model_version"],
        mean=stats["eval/raw_correct"],
        error=stats["eval/raw_correct_standard_error"],
        completions=int(stats["eval/completions"]),
    )
