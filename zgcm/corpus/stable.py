"""Stable choices: the published hashes that decide shards, orders and quotas, the same on every machine.

The published formulas; tests hold values that an independent implementation computed.
"""

import hashlib
from collections.abc import Iterable, Mapping
from fractions import Fraction

import numpy as np

from zgcm.errors import ZgcmError


def stable_partition(key: str, parts: int, seed: str = "zgcm") -> int:
    """Which of `parts` a key belongs to: BLAKE2b (8 bytes, big-endian) of seed NUL key, modulo parts."""
    if parts <= 0:
        raise ZgcmError("There must be at least one part", found=str(parts), expected="1 or more")
    digest = hashlib.blake2b(f"{seed}\0{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) % parts


def deterministic_shuffle_key(key: str, seed: str = "zgcm") -> bytes:
    """The 16 bytes by which keys are sorted into a shuffled order: BLAKE2b of seed NUL key."""
    return hashlib.blake2b(f"{seed}\0{key}".encode(), digest_size=16).digest()


def shuffled_order(keys: Iterable[str], seed: str) -> np.ndarray:
    """Positions of `keys` in shuffled order (int64): ascending shuffle keys, equal ones by position."""
    digests = bytearray()  # 16 bytes a key; joined at the end, each would be an object of 49
    for key in keys:
        digests += deterministic_shuffle_key(key, seed)
    high, low = np.frombuffer(digests, ">u8").reshape(-1, 2).T
    return np.lexsort((low, high))


def allocate_mix_quotas(weights: Mapping[str, float], total: int) -> dict[str, int]:
    """Split `total` by weight into whole numbers that add up to it (largest remainders, ties by name).

    Sources of weight 0 are left out. Exact rational arithmetic on the decimal weights as written, so 0.1 is a
    tenth. Raises ZgcmError when no weight is positive or the total is negative.
    """
    shares = {name: Fraction(str(weight)) for name, weight in weights.items() if weight > 0}
    if not shares or total < 0:
        raise ZgcmError(
            "Quotas need a positive weight and a total that is not negative",
            found=f"weights {dict(weights)}, total {total}", hint="correct the mix's sources and tokens",
        )  # fmt: skip
    exact = {name: total * share / sum(shares.values()) for name, share in shares.items()}
    quotas = {name: int(share) for name, share in exact.items()}
    by_remainder = sorted(exact, key=lambda name: (quotas[name] - exact[name], name))
    for name in by_remainder[: total - sum(quotas.values())]:
        quotas[name] += 1
    return quotas
