"""Evaluations of an RL stage: mean raw reward on held-out prompts, and its standard error, by version."""

import math
from dataclasses import dataclass
from typing import Any

from zgcm.io import read_json
from zgcm.layout import Layout
from zgcm.report import runs


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
    """The raw reward is 0 or 1, so its mean p over n completions has the standard error sqrt(p (1 - p) / n).

    Completions of one prompt are alike: the true error is larger, at most by sqrt(completions a prompt).
    """
    stats = marker["stats"]
    mean, completions = stats["eval/raw_correct"], int(stats["eval/completions"])
    error = math.sqrt(mean * (1 - mean) / completions)
    return Evaluation(marker["model_version"], mean, error, completions)
