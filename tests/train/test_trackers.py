"""Trackers are asked for by name, must be installed, and follow what goes to TensorBoard."""

import importlib.machinery
import sys
from itertools import chain, pairwise
from types import SimpleNamespace

import pytest

from tests.train.workspace import RECIPE
from zgcm.config.load import validate_recipe
from zgcm.config.recipe import deep_merge
from zgcm.errors import ZgcmError
from zgcm.layout import Layout
from zgcm.train import trackers
from zgcm.train.arguments import Plan, megatron_argv


def recipe(*asked):
    return validate_recipe(deep_merge(RECIPE, {"stages": {"one": {"trackers": list(asked)}}}), where="tests")


def argv(tmp_path, *asked):
    layout = Layout(tmp_path)
    options = megatron_argv(recipe(*asked), layout, "one", layout.runs("one") / "0123", Plan(8, 3))
    parts = list(chain.from_iterable(options))
    return dict(pairwise(parts))


def test_a_missing_tracker_is_an_error_before_anything_starts(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.setitem(sys.modules, "swanlab", fake("swanlab"))
    with pytest.raises(ZgcmError, match=r"stages\.one\.trackers.*missing: wandb.*pip install wandb"):
        trackers.check(recipe("wandb", "swanlab").train_stages()["one"], "one")
    trackers.check(recipe("swanlab").train_stages()["one"], "one")
    trackers.check(recipe().train_stages()["one"], "one")


def fake(name, **functions):
    return SimpleNamespace(__spec__=importlib.machinery.ModuleSpec(name, None), **functions)


def test_tensorboard_always_and_wandb_by_megatrons_own_options(tmp_path):
    plain = argv(tmp_path)
    assert plain["--tensorboard-dir"] == str(tmp_path / "one" / "runs" / "0123" / "tensorboard")
    assert "--wandb-project" not in plain
    asked = argv(tmp_path, "wandb")
    assert (asked["--wandb-project"], asked["--wandb-exp-name"]) == ("test", "one-0123")


def test_swanlab_follows_tensorboard(monkeypatch, tmp_path):
    calls = []
    module = fake(
        "swanlab",
        init=lambda **named: calls.append(named),
        sync_tensorboard_torch=lambda: calls.append("sync"),
    )
    monkeypatch.setitem(sys.modules, "swanlab", module)
    trackers.start([], "test", "one", tmp_path / "0123")
    assert calls == []
    trackers.start(["swanlab"], "test", "one", tmp_path / "0123")
    assert calls[0]["project"] == "test"
    assert calls[0]["experiment_name"] == "one-0123"
    assert calls[1] == "sync"
