"""Conversations packed into sequences for fine-tuning. `zgcm pack`, `zgcm pack-summary`

Item i of three indexed datasets describes one packed sequence:
`{shard}_tokens`, `{shard}_targets` (the same ids, not shifted, -100 where nothing is learned) and
`{shard}_cu_seqlens` (where its conversations begin, and the end). Learned are the assistant's turns:
reasoning, answer and end token. Sequences are at most `sequence_length` long (the format would allow one
more) and are not padded; training pads. A conversation that is longer is reported, never cut.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from zgcm.config.recipe import Recipe
from zgcm.errors import ZgcmError
from zgcm.io import read_json, write_json
from zgcm.layout import Layout, mix_shards
from zgcm.tokens.facts import read_learned
from zgcm.tokens.gather import Reference, open_indexes, selected, take
from zgcm.tokens.indexed import Written, token_dtype, write_indexed
from zgcm.tokens.tokenizer import tokenizer_facts

IGNORE_INDEX = -100
REPORTED = 100
"""Conversations left out that are named one by one; all are counted."""


@dataclass
class _Conversations:
    """Usable conversations of an output shard in selected order, and those that are not."""

    tokens: list[np.ndarray] = field(default_factory=list)
    targets: list[np.ndarray] = field(default_factory=list)
    too_long: list[dict[str, Any]] = field(default_factory=list)
    without_loss: list[dict[str, Any]] = field(default_factory=list)


def pack_shard(
    recipe: Recipe, layout: Layout, mix: str, shard: str, tokenizer: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Write the three indexed datasets of an output shard and its manifest `{shard}.json`; returns it.

    `tokenizer` are the facts of the tokenizer's directory where that is not the layout's. Raises ZgcmError
    when no conversation fits. Memory: about 10 bytes a token of the shard.
    """
    length = recipe.mixes[mix].sequence_length
    assert length is not None, "a packed mix has a sequence_length"
    tokenizer = tokenizer or tokenizer_facts(layout.tokenizer)
    manifest = layout.packed_prefix(mix, shard).with_suffix(".json")
    manifest.unlink(missing_ok=True)
    conversations = _load(layout, mix, shard, length)
    if not conversations.tokens:
        raise nothing_to_pack(conversations, f"mixes.{mix}", length, recipe.mixes[mix].shards)
    bins = pack_bins([len(tokens) for tokens in conversations.tokens], length)
    written = _write(layout, mix, shard, conversations, bins, token_dtype(tokenizer["vocab_size"]))
    tokens = written["tokens"].tokens
    facts = {
        "mix": mix,
        "shard": shard,
        "sequence_length": length,
        "sequences": len(bins),
        "conversations": len(conversations.tokens),
        "tokens": tokens,
        "learned_tokens": sum(int((t != IGNORE_INDEX).sum()) for t in conversations.targets),
        "padding_fraction": 1 - tokens / (len(bins) * length),
        "too_long": len(conversations.too_long),
        "without_loss": len(conversations.without_loss),
        "reported": (conversations.too_long + conversations.without_loss)[:REPORTED],
        "tokenizer": tokenizer["digest"],
        "parts": {name: part.__dict__ for name, part in written.items()},
    }
    write_json(manifest, facts)
    return facts


def nothing_to_pack(conversations: _Conversations, place: str, length: int, shards: int) -> ZgcmError:
    """Longer sequences help where something was too long; plain text stays without an assistant turn."""
    too_long, without_loss = len(conversations.too_long), len(conversations.without_loss)
    remedies = ["allow longer sequences"] if too_long else []
    if without_loss:
        remedies.append("bring conversations, `messages` of which one is the assistant's")
    if shards > 1:
        remedies.append("use fewer shards")
    return ZgcmError(
        "No conversation can be packed",
        where=f"{place}.sequence_length" if too_long else place,
        found=f"{too_long:,} too long for {length:,} tokens, "
        f"{without_loss:,} without an assistant turn to learn",
        hint=", or ".join(remedies),
    )


def pack_bins(lengths: list[int], capacity: int) -> list[list[int]]:
    """Best fit in the order given: each item goes where the least room is left that suffices.

    Ties: the earlier bin. No length may exceed `capacity`. Returns bins of item numbers, items and bins in
    the order given, so that a shuffled order stays one. The original takes the longest item first: each of
    its sequences then holds one class of lengths, and a batch one kind of answer. On a hundred thousand
    lengths that costs little to avoid: scripts/bench/packing.py prints the padding of both.
    """
    bins: list[list[int]] = []
    room: list[tuple[int, int]] = []  # (room left, bin), sorted; full bins are dropped
    for item, length in enumerate(lengths):
        place = bisect_left(room, (length, -1))
        left, number = room.pop(place) if place < len(room) else (capacity, len(bins))
        if number == len(bins):
            bins.append([])
        bins[number].append(item)
        if left > length:
            insort(room, (left - length, number))
    return bins


def summarize(recipe: Recipe, layout: Layout, mix: str) -> dict[str, Any]:
    """Write the mix's dataset.json, from which training derives its iterations; returns it.

    `train_tokens` counts real tokens, without padding; `train_records` are packed sequences.
    """
    shards = [
        read_json(layout.mix(mix) / f"{shard}.json", made_by=f"zgcm pack {mix} {shard}")
        for shard in mix_shards(recipe, mix)
    ]

    def total(key: str) -> int:
        return sum(shard[key] for shard in shards)

    length = recipe.mixes[mix].sequence_length
    assert length is not None, "a packed mix has a sequence_length"
    dataset = {
        "train_tokens": total("tokens"),
        "train_records": total("sequences"),
        "conversations": total("conversations"),
        "learned_tokens": total("learned_tokens"),
        "sequence_length": length,
        "padding_fraction": 1 - total("tokens") / (total("sequences") * length),
        "too_long": total("too_long"),
        "without_loss": total("without_loss"),
        "reported": [item for shard in shards for item in shard["reported"]][:REPORTED],
        "shards": [shard["shard"] for shard in shards],
    }
    write_json(layout.dataset(mix), dataset)
    return dataset


def _load(layout: Layout, mix: str, shard: str, length: int) -> _Conversations:
    found, selection = _Conversations(), layout.selection(mix, shard)
    read = open_indexes(layout)
    learned = _open_learned(layout)
    for batch in selected(layout, mix, shard):
        for reference in batch:
            tokens = take(read, reference, selection)
            marks = learned(reference)
            if len(tokens) > length:
                found.too_long.append(_reported(reference, tokens, "too_long"))
            elif not len(marks):
                found.without_loss.append(_reported(reference, tokens, "without_loss"))
            else:
                found.tokens.append(np.array(tokens))
                found.targets.append(_targets(tokens, marks))
    return found


def _reported(reference: Reference, tokens: np.ndarray, reason: str) -> dict[str, Any]:
    source, shard, row = reference
    return {"source": source, "shard": shard, "row": row, "tokens": len(tokens), "reason": reason}


def _targets(tokens: np.ndarray, marks: np.ndarray) -> np.ndarray:
    """int32, the tokens inside the learned ranges and -100 elsewhere."""
    targets = np.full(len(tokens), IGNORE_INDEX, np.int32)
    for start, end in marks.reshape(-1, 2):
        targets[start:end] = tokens[start:end]
    return targets


def _open_learned(layout: Layout) -> Any:
    @lru_cache(None)
    def shard_marks(source: str, shard: str) -> tuple[np.ndarray, np.ndarray]:
        return read_learned(layout.index_facts(source, shard))

    def marks(reference: Reference) -> np.ndarray:
        values, offsets = shard_marks(reference[0], reference[1])
        return values[offsets[reference[2]] : offsets[reference[2] + 1]]

    return marks


def _write(
    layout: Layout,
    mix: str,
    shard: str,
    conversations: _Conversations,
    bins: list[list[int]],
    dtype: np.dtype,
) -> dict[str, Written]:
    def sequences(parts: list[np.ndarray]) -> list[np.ndarray]:
        return [np.concatenate([parts[item] for item in members]) for members in bins]

    def boundaries() -> list[np.ndarray]:
        lengths = [[len(conversations.tokens[item]) for item in members] for members in bins]
        return [np.concatenate([[0], np.cumsum(items)]) for items in lengths]

    contents = {
        "tokens": (dtype, sequences(conversations.tokens)),
        "targets": (np.dtype(np.int32), sequences(conversations.targets)),
        "cu_seqlens": (np.dtype(np.int32), boundaries()),
    }
    done = {}
    for name, (kind, items) in contents.items():
        prefix = layout.packed_prefix(mix, shard)
        with write_indexed(prefix.with_name(f"{prefix.name}_{name}"), kind) as (writer, written):
            for item in items:
                writer.append(item, np.array([len(item)]))
        done[name] = written
    return done
