"""In which order a mix's documents are trained on, and in which output shard each of them lies."""

import numpy as np

from zgcm.config.corpus import Mix
from zgcm.corpus.candidates import Rows
from zgcm.corpus.stable import shuffled_order, stable_partition

FENCE = 3.0
"""Interquartile ranges beyond the quartiles at which a complexity is an extreme outlier (Tukey's outer
fence). The published recipe removes extreme outliers and names no threshold."""
FACTOR = 2.0
"""An outlier also lies below half of the lower quartile or above the double of the upper one: where most
documents are alike, the fence alone would take out every other language and genre."""


def ranked(rows: Rows, seed: str, order: str) -> Rows:
    """Rows of one source in the order in which a quota takes them: as listed, or shuffled."""
    if order == "listed":
        return rows.take(np.lexsort((rows.row, rows.shard)))
    return rows.take(shuffled_order(rows.ids(), seed))


def outliers(complexity: np.ndarray) -> np.ndarray:
    """Mask of extreme outliers: beyond the outer fences and the factor, or without any word (NaN)."""
    known = complexity[~np.isnan(complexity)]
    if not len(known):
        return np.isnan(complexity)
    low, high = np.quantile(known, [0.25, 0.75])
    reach = FENCE * (high - low)
    lowest, highest = min(low - reach, low / FACTOR), max(high + reach, high * FACTOR)
    return ~((complexity >= lowest) & (complexity <= highest))


def order_mix(rows: Rows, section: Mix, seed: str, general: np.ndarray) -> tuple[Rows, np.ndarray]:
    """The rows in final order and the output shard of each (int64, ascending).

    `rows` holds source after source, each as `ranked` left it. `general[i]` says whether source i is general
    text. shuffled: each id hashes to a shard and to a place in it, so the shards read one after another are
    one global shuffle. curriculum, listed: one sequence cut into shards of nearly equal tokens.
    """
    if section.order == "shuffled":
        order = shuffled_order(rows.ids(), f"{seed}:mix")
        parts = (stable_partition(name, section.shards, f"{seed}:shard") for name in rows.ids())
        shards = np.fromiter(parts, np.int64, len(rows))[order]
        by_shard = np.argsort(shards, kind="stable")
        return rows.take(order[by_shard]), shards[by_shard]
    if section.order == "curriculum":
        rows = rows.take(interleaved(rows, general[rows.source]))
    return rows, contiguous_shards(rows.tokens, section.shards)


def interleaved(rows: Rows, general: np.ndarray) -> np.ndarray:
    """Positions in curriculum order (int64): general text from low to high complexity, all its sources as one
    stream; every other source spread evenly through it, in the order it has.

    A document's place is the share of its own stream's tokens that lie before its middle. So at any point of
    the sequence every stream has been consumed to the same fraction, within one document.
    """
    streams = [np.flatnonzero(general)[np.argsort(rows.complexity[general], kind="stable")]]
    others = np.unique(rows.source[~general])
    streams += [np.flatnonzero(~general & (rows.source == source)) for source in others]
    streams = [stream for stream in streams if len(stream)]
    places = [(np.cumsum(rows.tokens[s]) - rows.tokens[s] / 2) / rows.tokens[s].sum() for s in streams]
    merged = np.argsort(np.concatenate(places), kind="stable")
    return np.concatenate(streams)[merged]


def contiguous_shards(tokens: np.ndarray, shards: int) -> np.ndarray:
    """Shard of each document (int64, ascending): in which of `shards` equal parts its middle token lies."""
    middles = np.cumsum(tokens) - tokens / 2
    return np.minimum((middles * shards / max(int(tokens.sum()), 1)).astype(np.int64), shards - 1)
