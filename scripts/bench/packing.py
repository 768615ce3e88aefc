"""How much padding packing leaves at 256K, in the mix's order (ours) and longest first (the original's).

    .venv/bin/python scripts/bench/packing.py

Lengths are log-normal, cut at the sequence length, from a fixed seed. One JSON line a case: `padding` is the
part of the packed sequences that holds no token; `spread` is the standard deviation, over sequences, of the
part of their tokens in conversations longer than the median: 0 when every sequence is like the whole.
"""

import argparse
import json
import statistics

import numpy as np

from zgcm.tokens.pack import pack_bins

SEQUENCE_LENGTH = 262_144
CASES = {
    "short answers": (200_000, 3_000, 1.4),
    "reasoning": (100_000, 12_000, 1.2),
    "long reasoning": (50_000, 40_000, 1.0),
}
"""Conversations, median length in tokens, sigma of the logarithm."""


def measure(lengths: list[int], bins: list[list[int]]) -> dict[str, float]:
    median = statistics.median(lengths)
    filled = [sum(lengths[item] for item in members) for members in bins]
    longer = [sum(lengths[i] for i in members if lengths[i] > median) for members in bins]
    shares = [part / whole for part, whole in zip(longer, filled, strict=True)]
    padding = 1 - sum(filled) / (len(bins) * SEQUENCE_LENGTH)
    return {"padding": round(padding, 5), "spread": round(statistics.pstdev(shares), 4)}


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    for name, (count, median, sigma) in CASES.items():
        drawn = np.random.default_rng(0).lognormal(np.log(median), sigma, count)
        lengths = drawn.astype(int).clip(20, SEQUENCE_LENGTH).tolist()
        ordered = sorted(lengths, reverse=True)
        line = {
            "case": name,
            "in_order": measure(lengths, pack_bins(lengths, SEQUENCE_LENGTH)),
            "longest_first": measure(ordered, pack_bins(ordered, SEQUENCE_LENGTH)),
        }
        print(json.dumps(line))


if __name__ == "__main__":
    main()
