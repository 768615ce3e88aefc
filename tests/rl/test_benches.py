"""A bench of RL ends with 1 when one of its limits is broken."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def bench(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        f"bench_{name}", Path(__file__).parents[2] / f"scripts/bench/{name}.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NONE: dict[str, Any] = dict.fromkeys(("processes", "open_files", "threads", "directories", "groups"), 0)
SANDBOX: dict[str, Any] = {
    "overhead": {"ratio": 2.0},
    "load": {"answers": {"right": 900}},
    "more": {**NONE, "threads": 4, "megabytes": 9},
    "left": {"processes": 0, "directories": 0},
}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({}, []),
        ({"overhead": {"ratio": 2.1}}, ["overhead"]),
        ({"load": {"answers": {"right": 900, "wrong": 1}}}, ["load"]),
        ({"load": {"answers": {}}}, ["load"]),
        ({"more": {**NONE, "groups": 1}}, ["more.groups"]),
        ({"left": {"processes": 1, "directories": 0}}, ["left.processes"]),
    ],
)
def test_sandbox(change: dict[str, Any], named: list[str]) -> None:
    assert bench("sandbox").broken({**SANDBOX, **change}) == named


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({}, []),
        ({"scaling": 0.79}, ["scaling"]),
        ({"hanging": 1.6}, ["hanging"]),
        ({"timeouts": 4}, ["timeouts"]),
        ({"wrong": 1}, ["wrong"]),
    ],
)
def test_reward_pool(change: dict[str, float], named: list[str]) -> None:
    good = {"scaling": 0.8, "hanging": 1.5, "timeouts": 5, "hanging_pairs": 5, "wrong": 0}
    assert bench("reward_pool").broken({**good, **change}) == named
