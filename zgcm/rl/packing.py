"""Which responses share a micro-batch: seeded minibatches, then first-fit decreasing into a token budget."""

import itertools
import random
from collections.abc import Sequence

from zgcm.errors import ZgcmError


def first_fit_decreasing(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Bins of item indices, none over `capacity` tokens. Longest first, ties by index: always the same bins.

    Raises ZgcmError when one item alone does not fit.
    """
    bins: list[list[int]] = []
    free: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda item: (-lengths[item], item)):
        length = lengths[index]
        if length > capacity:
            raise ZgcmError(
                "A trajectory is longer than a micro-batch",
                found=f"{length} tokens",
                expected=f"at most {capacity}",
                hint="raise learner.max_tokens_per_microbatch",
            )
        place = next((number for number, room in enumerate(free) if room >= length), len(bins))
        if place == len(bins):
            bins.append([])
            free.append(capacity)
        bins[place].append(index)
        free[place] -= length
    return bins


def minibatches(count: int, parts: int, seed: int) -> list[list[int]]:
    """Shuffle `count` items and split them into `parts` of nearly equal size, none of them empty."""
    order = list(range(count))
    random.Random(seed).shuffle(order)
    parts = min(parts, count)
    bounds = [round(part * count / parts) for part in range(parts + 1)] if parts else []
    return [order[start:end] for start, end in itertools.pairwise(bounds)]
