"""Made-up texts for the files of these tests."""

import random

from token_workspace import words


def texts(count: int, seed: int = 5) -> list[str]:
    rng = random.Random(seed)
    return [words(rng, rng.randint(5, 60)) for _ in range(count)]
