"""A histogram: one bar a value, full where the prompts are kept, an outline where they are left out."""

from collections.abc import Mapping

from zgcm.report.curves import Frame, axes
from zgcm.report.svg import drawing, tag, text, ticks


def histogram(
    counts: Mapping[int, tuple[int, bool]], label: str, width: float, height: float, class_: str
) -> str:
    """`counts`: passes -> (prompts, whether they are kept), without gaps from 0."""
    most = max((number for number, _ in counts.values()), default=0)
    frame = Frame(46, 28, width - 16, height - 34, 0, len(counts), 0, most * 1.12 or 1)
    levels = [(value, f"{value:,.0f}") for value in ticks(0, most, 4) if value == int(value)]
    parts = axes(frame, levels, f"right answers of {len(counts) - 1}", "prompts", width, x_ticks=False)
    gap = 0.12
    for place, (number, kept) in counts.items():
        left, right = frame.x(place + gap), frame.x(place + 1 - gap)
        top, middle = frame.y(number), (left + right) / 2
        said = f"{place} of {len(counts) - 1}: {number:,} prompts, {'kept' if kept else 'left out'}"
        parts.append(
            tag(
                "rect", tag("title", said), x=left, y=top, width=right - left, height=frame.bottom - top,
                class_="column" if kept else "column out",
            )
        )  # fmt: skip
        parts.append(text(middle, frame.bottom + 16, str(place), "tick", "middle"))
        parts.append(text(middle, top - 5, f"{number:,}", "tick", "middle"))
    return drawing(width, height, parts, label, f"chart {class_}")
