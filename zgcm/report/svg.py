"""Just enough SVG: tags, nice axis ticks, thinning of long curves.

Colours are CSS classes of the page, so a drawing follows the reader's light or dark mode and prints well.
Coordinates have one decimal; the same data gives the same bytes.
"""

import math
from collections.abc import Sequence
from html import escape

Point = tuple[float, float]


def number(value: float) -> str:
    """One decimal, no trailing zero, no minus zero."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def tag(name: str, content: str = "", **attributes: float | str) -> str:
    """An element. `class_` gives class, other underscores become hyphens; `content` is markup, not text."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value) if isinstance(value, str) else number(value)}"'
        for key, value in attributes.items()
    )
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


def text(x: float, y: float, words: str, class_: str = "", anchor: str = "start", title: str = "") -> str:
    tooltip = tag("title", escape(title)) if title else ""
    return tag("text", escape(words) + tooltip, x=x, y=y, class_=class_, text_anchor=anchor)


def drawing(width: float, height: float, parts: Sequence[str], label: str, class_: str) -> str:
    """A whole drawing. `label` is what a screen reader says."""
    return tag(
        "svg",
        "\n".join([tag("title", escape(label)), *parts]),
        viewBox=f"0 0 {number(width)} {number(height)}",
        width=width,
        height=height,
        role="img",
        class_=class_,
    )


def polyline(points: Sequence[Point], class_: str) -> str:
    path = " ".join(f"{number(x)},{number(y)}" for x, y in points)
    return tag("polyline", points=path, class_=class_)


def ticks(low: float, high: float, about: int) -> list[float]:
    """Round values (1, 2, 2.5 or 5 times a power of ten) inside [low, high], about `about` of them."""
    if not high > low:
        return [low]
    raw = (high - low) / max(about, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten inside [low, high]; powers of ten alone where these span three decades;
    evenly spaced round values where fewer than three of them would remain."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1.0,) if math.log10(high / low) > 3 else (1.0, 2.0, 5.0)
    values = [factor * 10.0**decade for decade in decades for factor in factors]
    inside = [value for value in values if low <= value <= high]
    return inside if len(inside) >= 3 else ticks(low, high, 5)


def thin(points: Sequence[Point], limit: int) -> list[Point]:
    """At most about `limit` points: of each bucket its lowest and highest one, so no spike is lost."""
    if len(points) <= limit:
        return list(points)
    size = math.ceil(2 * len(points) / limit)
    kept = [points[0]]
    for start in range(0, len(points), size):
        bucket = points[start : start + size]
        kept += sorted({min(bucket, key=lambda point: point[1]), max(bucket, key=lambda point: point[1])})
    return list(dict.fromkeys([*kept, points[-1]]))


def smooth(points: Sequence[Point], half: int) -> list[Point]:
    """Centred moving mean over 2·half + 1 values, the window shrinking at both ends."""
    sums = [0.0]
    for _, y in points:
        sums.append(sums[-1] + y)
    result = []
    for index, (x, _) in enumerate(points):
        reach = min(half, index, len(points) - 1 - index)
        low, high = index - reach, index + reach + 1
        result.append((x, (sums[high] - sums[low]) / (high - low)))
    return result
