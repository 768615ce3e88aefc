"""What a part of the preflight is given and what it answers."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from zgcm.config.recipe import Recipe
from zgcm.layout import Layout

Status = Literal["ran", "failed", "not applicable"]


@dataclass(frozen=True)
class Task:
    """`work` is an empty directory below the results, removed afterwards; `logs` stays."""

    recipe: Recipe
    layout: Layout
    work: Path
    logs: Path


@dataclass(frozen=True)
class Answer:
    """`line` is for people, `figures` for programs; `reason` says why it failed or why it does not apply."""

    status: Status
    line: str
    figures: dict[str, Any] = field(default_factory=dict)
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def ran(line: str, **figures: Any) -> Answer:
    return Answer("ran", line, figures)


def failed(reason: str, **figures: Any) -> Answer:
    return Answer("failed", reason, figures, reason)


def not_applicable(reason: str, **figures: Any) -> Answer:
    return Answer("not applicable", reason, figures, reason)
