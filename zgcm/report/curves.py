"""The two charts of the report, drawn as SVG: the loss of all stages on one axis of tokens, and the reward.

Each is drawn for a width, since a phone needs larger text relative to the drawing, not a smaller copy.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zgcm import numbers
from zgcm.report.svg import Point, drawing, log_ticks, polyline, smooth, tag, text, thin, ticks

SMOOTH_FROM = 60  # with fewer points a moving mean hides more than it shows
LOWEST = 1e-4  # smaller losses are drawn here: the axis is logarithmic
CHARACTER = 6.6  # average width of a character of the charts' 12px text


@dataclass(frozen=True)
class LossCurve:
    """One stage's losses: `points` are (tokens since the start of this stage, loss)."""

    stage: str
    points: Sequence[Point]


@dataclass(frozen=True)
class Reward:
    """One RL stage. Points are (policy version or step, reward); evaluations carry their standard error."""

    stage: str
    training: Mapping[str, Sequence[Point]]
    """Domain -> points; of a stage of one domain the only name is empty."""
    evaluations: Sequence[tuple[float, float, float]]


@dataclass(frozen=True)
class Frame:
    """A plotting area inside a drawing, and its data ranges."""

    left: float
    top: float
    right: float
    bottom: float
    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x(self, value: float) -> float:
        return self.left + (value - self.x_low) / (self.x_high - self.x_low) * (self.right - self.left)

    def y(self, value: float) -> float:
        share = (value - self.y_low) / (self.y_high - self.y_low)
        return self.bottom - share * (self.bottom - self.top)

    def place(self, points: Sequence[Point]) -> list[Point]:
        return [(self.x(x), self.y(y)) for x, y in points]


def loss_chart(curves: Sequence[LossCurve], width: float, height: float, class_: str) -> str:
    """Loss per token (nats), logarithmic, against tokens over all stages; boundaries marked and named."""
    curves = [curve for curve in curves if curve.points]
    starts = [0.0]
    for curve in curves:
        starts.append(starts[-1] + curve.points[-1][0])
    labels, rows = label_rows(curves, starts, 40, width - 12)
    top = 14.0 + 16 * rows
    losses = [max(loss, LOWEST) for curve in curves for _, loss in curve.points]
    low, high = math.log10(min(losses) * 0.92), math.log10(max(losses) * 1.08)
    frame = Frame(40, top, width - 12, height - 34, 0, starts[-1] or 1, low, high)
    levels = [(math.log10(value), f"{value:g}") for value in log_ticks(10**low, 10**high)]
    parts = axes(frame, levels, "tokens", "loss", width)
    names = []
    for curve, start, (label_x, row) in zip(curves, starts[:-1], labels, strict=True):
        boundary = frame.x(start)
        level = 12.0 + 16 * row
        parts.append(tag("line", x1=boundary, x2=boundary, y1=level - 9, y2=frame.bottom, class_="boundary"))
        names.append(text(label_x, level, curve.stage, "label"))  # drawn last: its halo hides lines behind it
        parts += stage_lines(frame, [(start + x, math.log10(max(y, LOWEST))) for x, y in curve.points])
    parts += names
    stages = ", ".join(curve.stage for curve in curves)
    return drawing(width, height, parts, f"Training loss against tokens: {stages}", f"chart {class_}")


def stage_lines(frame: Frame, points: Sequence[Point]) -> list[str]:
    """Every step as a faint line, and over it a moving mean where there are enough steps for one."""
    pixels = frame.x(points[-1][0]) - frame.x(points[0][0])
    raw = frame.place(thin(points, max(20, int(2 * pixels))))
    last_x, last_y = frame.place(points[-1:])[0]
    end = tag("circle", cx=last_x, cy=last_y, r=2.5, class_="dot")
    if len(points) < SMOOTH_FROM:
        return [polyline(raw, "curve"), end]
    mean = frame.place(thin(smooth(points, max(2, len(points) // 60)), max(20, int(pixels / 2))))
    return [polyline(raw, "curve faint"), polyline(mean, "curve"), end]


def label_rows(
    curves: Sequence[LossCurve], starts: Sequence[float], left: float, right: float
) -> tuple[list[tuple[float, int]], int]:
    """For each stage's name its x and its row above the plot, so that no two names overlap.

    A name stands right of its boundary, in the first row where it is free of the names before it and no
    later boundary's line crosses it (only a name pushed in from the right edge may lie over a line); rows
    count from the top. Returns the places and the number of rows.
    """
    total = starts[-1] or 1
    places: list[tuple[float, int]] = []
    used: list[float] = []  # rows from the bottom up: where the last name in each one ends
    for curve, start in zip(reversed(curves), reversed(starts[:-1]), strict=True):
        boundary = left + start / total * (right - left)
        length = CHARACTER * len(curve.stage)
        x = min(boundary + 4, right - length)
        row = next((index for index, begin in enumerate(used) if x + length + 6 <= begin), len(used))
        # A line rises to its own name's row: names in rows below it must end before the line.
        used = [min(begin, boundary) for begin in used[:row]] + [min(x, boundary)] + used[row + 1 :]
        places.append((x, row))
    rows = len(used)
    return [(x, rows - 1 - row) for x, row in reversed(places)], rows


def reward_chart(reward: Reward, width: float, height: float, class_: str) -> str:
    """Mean raw reward of the evaluations, and of each training step's rollouts."""
    steps = [x for x, *_ in reward.evaluations] + [x for line in reward.training.values() for x, _ in line]
    frame = Frame(46, 28, width - 16, height - 34, 0, max([*steps, 1]), 0, 1)
    levels = [(value, numbers.percent(value, 0)) for value in ticks(0, 1, 5)]
    parts = axes(frame, levels, "step", "reward", width)
    parts += named_lines(frame, reward.training, "curve faint" if len(reward.training) == 1 else "curve")
    if len(reward.evaluations) > 1:
        parts.append(polyline(frame.place([(x, mean) for x, mean, _ in reward.evaluations]), "curve"))
    for step, mean, error in reward.evaluations:
        x, y = frame.x(step), frame.y(mean)
        low, high = frame.y(max(mean - 2 * error, 0)), frame.y(min(mean + 2 * error, 1))
        words = f"step {step:g}: {numbers.percent(mean)} ± {numbers.percent(2 * error)}"
        parts += [
            tag("line", x1=x, x2=x, y1=low, y2=high, class_="bar"),
            tag("line", x1=x - 4, x2=x + 4, y1=low, y2=low, class_="bar"),
            tag("line", x1=x - 4, x2=x + 4, y1=high, y2=high, class_="bar"),
            tag("circle", tag("title", words), cx=x, cy=y, r=4, class_="dot"),
        ]
    return drawing(
        width, height, parts, f"Reward of {reward.stage} against training steps", f"chart {class_}"
    )


def lines_chart(
    lines: Mapping[str, Sequence[Point]],
    y_name: str,
    label: str,
    width: float,
    height: float,
    class_: str,
    *,
    share: bool = False,
) -> str:
    """Lines against the step, their names above the plot; `share`: values are shares, in per cent."""
    points = [point for line in lines.values() for point in line]
    most = max(y for _, y in points)
    high = max(min(most * 1.15, 1), 0.05) if share else most * 1.15 or 1
    frame = Frame(46, 28, width - 16, height - 34, 0, max(max(x for x, _ in points), 1), 0, high)
    values = ticks(0, high, 4)
    form = (lambda value: numbers.percent(value, 0 if high > 0.1 else 1)) if share else numbers.short
    parts = axes(frame, [(value, form(value)) for value in values], "step", y_name, width)
    return drawing(width, height, [*parts, *named_lines(frame, lines, "curve")], label, f"chart {class_}")


LINES = ("", " second", " third")
"""Classes by which lines of one drawing differ, in colour and dashes."""


def named_lines(frame: Frame, lines: Mapping[str, Sequence[Point]], class_: str) -> list[str]:
    """Each line; those with a name have it in a row above the plot, behind a piece of the line."""
    parts = []
    x = frame.right
    for place, (name, points) in reversed(list(enumerate(lines.items()))):
        kind = LINES[place % len(LINES)]
        parts.append(polyline(frame.place(thin(points, int(2 * (frame.right - frame.left)))), class_ + kind))
        if name:
            y = frame.top - 12
            parts.append(text(x, y, name, "label" + kind, "end"))
            x -= CHARACTER * len(name) + 6
            parts.append(polyline([(x - 22, y - 4), (x, y - 4)], class_ + kind))
            x -= 22 + 16
    return parts


def axes(
    frame: Frame,
    levels: Sequence[tuple[float, str]],
    x_name: str,
    y_name: str,
    width: float,
    *,
    x_ticks: bool = True,
) -> list[str]:
    """Grid lines at `levels` with their words, ticks below, names of both axes in the corners."""
    parts = []
    for value, words in levels:
        y = frame.y(value)
        parts += [
            tag("line", x1=frame.left, x2=frame.right, y1=y, y2=y, class_="grid"),
            text(frame.left - 7, y + 4, words, "tick", "end"),
        ]
    for value in ticks(frame.x_low, frame.x_high, int(width // 110)) if x_ticks else ():
        if value != int(value):  # half a step or half a token
            continue
        words = numbers.short(value)
        x = min(frame.x(value), width - CHARACTER * len(words) / 2)
        parts.append(text(x, frame.bottom + 16, words, "tick", "middle"))
    parts.append(text(frame.right, frame.bottom + 31, x_name, "tick", "end"))
    fits = CHARACTER * len(y_name) < frame.left - 7
    parts.append(
        text(frame.left - 7 if fits else 0, frame.top - 10, y_name, "tick", "end" if fits else "start")
    )
    return parts
