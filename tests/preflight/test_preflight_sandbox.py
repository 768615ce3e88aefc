"""Part `sandbox` of the preflight: told before the pretraining, not when the stage of code begins."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.preflight.conftest import CHECKOUT
from zgcm.config.load import load_recipe
from zgcm.config.recipe import Recipe
from zgcm.layout import Layout
from zgcm.preflight import report, sandbox
from zgcm.preflight.answer import Task
from zgcm.preflight.needs import needs_id, sandboxed
from zgcm.rl.sandbox import jail as jails


@pytest.fixture
def with_programs(tmp_path: Path) -> Callable[[int], Recipe]:
    """Of a limit of memory: the tiny recipe, which has stages of code."""

    def make(memory_mb: int) -> Recipe:
        overlay = tmp_path / "overlay.yaml"
        overlay.write_text(f"stages: {{rl_code: {{reward: {{sandbox: {{memory_mb: {memory_mb}}}}}}}}}\n")
        return load_recipe([CHECKOUT / "config/tiny.yaml", overlay])

    return make


def test_it_attests_each_stage_and_their_limits_are_needs(
    with_programs: Callable[[int], Recipe], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = with_programs(700)
    assert sandboxed(recipe)["rl_code"] == 700
    assert needs_id(recipe) != needs_id(with_programs(701))
    made = report.run_parts(recipe, Layout(tmp_path / "results"), ["sandbox"])["parts"]["sandbox"]
    assert made["status"] == "ran" and "rl_code: " in made["line"]
    assert made["figures"]["properties"]["700 MiB"]["net_namespace"] is True

    real = jails.command
    monkeypatch.setattr(
        jails, "command", lambda *given: [part for part in real(*given) if part != "--unshare-net"]
    )
    made = report.run_parts(recipe, Layout(tmp_path / "results"), ["sandbox"])["parts"]["sandbox"]
    assert made["status"] == "failed" and "net_namespace" in made["reason"]


def test_a_recipe_without_programs_needs_none(task: Callable[..., Task]) -> None:
    assert sandbox.check(task()).status == "not applicable"
