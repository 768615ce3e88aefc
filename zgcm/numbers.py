"""Numbers as people read them: 102.4K tokens, 3 min 20 s, 41.2 %."""

from typing import Any

_UNITS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K"))
_BYTE_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def count(value: float | None) -> str:
    """Exact below 10,000, three or four significant digits above: 9,999, 102.4K, 1.00T."""
    if value is None:
        return "–"
    for size, unit in _UNITS:
        if abs(value) >= size and abs(value) >= 10_000:
            scaled = value / size
            return f"{scaled:.2f}{unit}" if scaled < 10 else f"{scaled:.1f}{unit}"
    return f"{value:,.0f}"


def short(value: float) -> str:
    """For axis ticks, whose values are round: 0, 50, 100K, 2.5T."""
    size, unit = next(((size, unit) for size, unit in _UNITS if abs(value) >= size), (1, ""))
    return f"{value / size:g}{unit}"


def byte_count(value: float | None) -> str:
    if value is None:
        return "–"
    for size, unit in _BYTE_UNITS:
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return f"{value:.0f} B"


def loss(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def percent(value: float | None, digits: int = 1) -> str:
    """Of a share between 0 and 1."""
    return "–" if value is None else f"{100 * value:.{digits}f} %"


def duration(seconds: float | None) -> str:
    """Two units at most: 4.2 s, 3 min 20 s, 2 h 05 min, 23 d 4 h."""
    if seconds is None:
        return "–"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400:,} d {whole % 86400 // 3600} h"


def context(tokens: int) -> str:
    """A context length in the field's own way: 64, 1,024, 16K, 256K."""
    return f"{tokens // 1024}K" if tokens >= 4096 and tokens % 1024 == 0 else f"{tokens:,}"


def counted(number: int, noun: str) -> str:
    """A number of things: 1 shard, 1,024 shards."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def position(iteration: int, last: int, first: int = 0) -> str:
    """Where a stage is: "step 20 of 200". Of one that continues another, and so starts from the iteration
    `first`, Megatron's own count follows, since checkpoints and logs are named by it."""
    own = f"step {iteration - first:,} of {last - first:,}"
    return f"{own} (iteration {iteration:,} of {last:,})" if first else own


def arrow(first: Any, last: Any) -> str:
    return f"{first} → {last}"
