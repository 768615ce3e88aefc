"""Ticks, thinning and placing: the arithmetic under the drawings."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zgcm.config.recipe import Recipe
from zgcm.report import dag, graph
from zgcm.report.curves import LossCurve, label_rows, loss_chart
from zgcm.report.svg import log_ticks, smooth, thin, ticks

FINITE = st.floats(-1e6, 1e6)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]), (0, 12, [0, 2.5, 5, 7.5, 10]), (3, 3, [3])],
)
def test_ticks_are_round(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high, 5) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.1, 8, [0.1, 0.2, 0.5, 1, 2, 5]),
        (5.5, 7.7, [5.5, 6, 6.5, 7, 7.5]),
        (0.001, 9, [0.001, 0.01, 0.1, 1]),
    ],
)
def test_log_ticks_suit_their_range(low: float, high: float, expected: list[float]) -> None:
    assert log_ticks(low, high) == pytest.approx(expected)


@given(st.lists(FINITE, min_size=1, max_size=500), st.integers(4, 50))
def test_thinning_keeps_ends_and_extremes(values: list[float], limit: int) -> None:
    points = [(float(index), value) for index, value in enumerate(values)]
    kept = thin(points, limit)
    assert set(kept) <= set(points)
    assert kept == sorted(set(kept))
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    assert {min(values), max(values)} <= {y for _, y in kept}
    assert len(kept) <= limit + 4 or len(points) <= limit


def test_the_moving_mean_of_a_line_is_the_line() -> None:
    points = [(float(x), 2.0 * x + 1) for x in range(50)]
    assert [y for _, y in smooth(points, 7)] == pytest.approx([y for _, y in points])


@given(st.lists(st.tuples(st.floats(0, 900), st.floats(10, 90)), min_size=1, max_size=12))
def test_settled_boxes_keep_order_and_distance(boxes: list[tuple[float, float]]) -> None:
    wanted, heights = sorted(y for y, _ in boxes), [h for _, h in boxes]
    tops = dag.settle(wanted, heights, 0, 10_000)
    for (top, height), after in itertools.pairwise([*zip(tops, heights, strict=True), (10_000, 0)]):
        assert after[0] - top >= height + dag.GAP - 1e-6 or after[0] == 10_000
    assert tops[0] >= 0


def test_boxes_that_fit_stay_where_they_are_wanted() -> None:
    assert dag.settle([10, 200, 500], [50, 50, 50], 0, 1000) == [10, 200, 500]


def test_boxes_of_the_picture_do_not_overlap(tiny: Recipe) -> None:
    for draw in (dag.wide, dag.narrow):
        boxes = rectangles(draw(graph.pipeline(tiny, {})))
        assert len(boxes) == len(graph.pipeline(tiny, {}).boxes)
        for (x, y, w, h), (x2, y2, w2, h2) in itertools.combinations(boxes, 2):
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y


def rectangles(drawing: str) -> list[tuple[float, float, float, float]]:
    found = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)" rx', drawing)
    return [(float(x), float(y), float(w), float(h)) for x, y, w, h in found]


def test_sources_with_the_same_use_share_a_box(tiny: Recipe) -> None:
    alike = tiny.sources["demo_conversations"].model_copy(update={"seed": 1})
    mixes = {
        name: mix.model_copy(update={"sources": {"alike": 1.0, **mix.sources}}) if name == "sft" else mix
        for name, mix in tiny.mixes.items()
    }
    recipe = tiny.model_copy(update={"sources": {**tiny.sources, "alike": alike}, "mixes": mixes})
    boxes = list(graph.source_groups(recipe).values())
    assert [*tiny.mixes["sft"].sources, "alike"] in boxes
    assert sorted(name for box in boxes for name in box) == sorted(recipe.sources)


def test_stage_names_over_the_chart_do_not_overlap() -> None:
    sizes = {"long_stage_name": 100, "b" * 20: 3, "c" * 20: 2}
    curves = [LossCurve(name, [(size, 1.0)]) for name, size in sizes.items()]
    starts = [0.0, 100.0, 103.0, 105.0]
    places, rows = label_rows(curves, starts, 40, 948)
    spans = [(row, x, x + 6.6 * len(curve.stage)) for curve, (x, row) in zip(curves, places, strict=True)]
    for (row, begin, end), (row2, begin2, end2) in itertools.combinations(spans, 2):
        assert row != row2 or end <= begin2 or end2 <= begin
    assert rows == 2


def test_a_loss_of_zero_can_be_drawn() -> None:
    assert "nan" not in loss_chart([LossCurve("sft", [(1.0, 0.0), (2.0, 0.0)])], 400, 300, "wide")
