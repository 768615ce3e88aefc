"""Which precisions are compared, and when a curve is too far from the reference."""

import pytest

from tests.preflight.conftest import GPU, NO_GPU, ON_GPUS, recipe
from zgcm.preflight import kernels, losses

FALLING = [8.0, 7.0, 6.0, 4.0]


@pytest.fixture
def with_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "gpus", lambda: GPU)
    monkeypatch.setattr(kernels, "fp8", lambda here: "")


def stage(**changes):  # type: ignore[no-untyped-def]
    return recipe(stages={"one": changes}).train_stages()["one"]


def test_the_gap_is_the_mean_distance_by_the_fall() -> None:
    found = losses.compare({"bf16": FALLING, "fp8": [8.0, 7.2, 6.2, 4.4]})
    assert found["gaps"] == {"fp8": pytest.approx(0.8 / 4 / 4)}
    assert losses.find_problems({"bf16": FALLING, "fp8": FALLING}, found["gaps"]) == []


def test_weights_that_updates_never_reach_are_found() -> None:
    curves = {"bf16": FALLING, "fp8 with param-gather": [8.0, 8.0, 8.0, 8.0]}
    problems = losses.find_problems(curves, losses.compare(curves)["gaps"])
    assert len(problems) == 1
    assert "fp8 with param-gather 8.000 -> 8.000 (gap 0.44), over 0.1" in problems[0]


def test_a_reference_that_does_not_learn_compares_nothing() -> None:
    curves = {"bf16": [4.0, 5.0], "fp8": [4.0, 5.0]}
    assert "learns nothing" in losses.find_problems(curves, losses.compare(curves)["gaps"])[0]


def test_bf16_on_a_cpu_is_compared_with_fp32() -> None:
    compared = losses.variants(stage())
    assert list(compared) == ["fp32", "bf16"]


@pytest.mark.parametrize("gather", [True, False])
def test_fp8_is_compared_with_param_gather_on_and_off(gather: bool, with_gpus: None) -> None:
    compared = losses.variants(stage(**{**ON_GPUS, "fp8": {"param_gather": gather}}))
    assert isinstance(compared, dict)
    assert next(iter(compared)) == "bf16" and compared["bf16"] == {"fp8": None}
    assert sorted(compared) == ["bf16", "fp8 with param-gather", "fp8 without param-gather"]
    own = "fp8 with param-gather" if gather else "fp8 without param-gather"
    assert compared[own] == {}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"bf16": False, "optimizer": {"distributed": False}}, "nothing is more exact"),
        (ON_GPUS, "no GPU"),
    ],
)
def test_nothing_to_compare_says_why(changes: dict, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "gpus", lambda: NO_GPU)
    assert why in losses.variants(stage(**changes))


def test_each_precision_is_tried_once(task, published) -> None:  # type: ignore[no-untyped-def]
    small = task()
    assert list(losses.distinct(small)) == ["one"]
    assert list(losses.distinct(type(small)(published, small.layout, small.work, small.logs))) == [
        "pretrain_1t"
    ]
