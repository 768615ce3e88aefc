"""The three orders in which a stage reads its mix.

sequential  one virtual stream of all shards in listed order; sample i is tokens [i*L, i*L + L] of it
shuffled    megatron-core's own blend of its own shuffled datasets, one per shard
cyclic      packed conversations: aligned tokens, targets and sequence boundaries (as published)

Every sample is a dictionary of tensors; axes: L sequence length, C boundaries of packed sequences.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.indexed_dataset import IndexedDataset
from torch.utils.data import Dataset

from zgcm.layout import PACKED_PARTS

IGNORED = -100  # target of a token that is read but not learned

Sample = dict[str, torch.Tensor]
Datasets = tuple[Dataset | None, Dataset | None, Dataset | None]


@dataclass(frozen=True)
class DataPlan:
    """What the launcher tells the trainer about the data. Prefixes in order, weights parallel to them."""

    order: str
    prefixes: list[str]
    weights: list[float]
    split: str
    sample_offset: int
    """Samples consumed before this stage; its own data begins there (continued pretraining)."""
    vocab_size: int
    eod: int
    seq_length: int
    seed: int
    cache: str
    threads: int


def build(data: DataPlan, samples: tuple[int, int, int]) -> Datasets:
    """Training, validation and test datasets for the requested numbers of samples."""
    if data.order == "sequential":
        return TokenStream(data.prefixes, data.seq_length, samples[0], data.sample_offset), None, None
    if data.order == "shuffled":
        return shuffled(data, samples)
    return packed(data, samples)


class TokenStream(Dataset):
    """All shards as one stream of tokens, cut into samples in order; it starts again at its end.

    The documents of a shard lie one after another in its .bin, so a sample is a slice of the memory map and
    no index is needed. Equal to megatron-core's GPTDataset with both of its shuffles left out.
    """

    def __init__(self, prefixes: list[str], seq_length: int, samples: int, sample_offset: int = 0) -> None:
        self.shards = [tokens_of(prefix) for prefix in prefixes]
        self.ends = np.cumsum([len(shard) for shard in self.shards])
        self.seq_length, self.samples, self.sample_offset = seq_length, samples, sample_offset

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> Sample:
        start = (index - self.sample_offset) * self.seq_length
        text = torch.from_numpy(self.read(start, self.seq_length + 1))
        return {"tokens": text[:-1], "labels": text[1:], "loss_mask": torch.ones(self.seq_length)}

    def read(self, start: int, length: int) -> np.ndarray:
        """Tokens [start, start + length) of the endless repetition of the stream, int64."""
        parts = []
        while length:
            at = start % int(self.ends[-1])
            shard = int(np.searchsorted(self.ends, at, side="right"))
            offset = at - (int(self.ends[shard - 1]) if shard else 0)
            part = self.shards[shard][offset : offset + length]
            parts.append(part)
            start, length = start + len(part), length - len(part)
        return np.concatenate(parts).astype(np.int64)


def tokens_of(prefix: str) -> np.ndarray:
    """The memory-mapped tokens of a .bin/.idx pair."""
    dtype = IndexedDataset(prefix, mmap=True).index.dtype
    return np.memmap(f"{prefix}.bin", dtype=dtype, mode="r")


class Vocabulary:
    """What megatron-core's datasets ask of a tokenizer.

    There is no padding token: with pad = end of document, as in our tokenizer, upstream would take the
    document ends out of the loss and replace them in the input by token 0.
    """

    def __init__(self, vocab_size: int, eod: int) -> None:
        self.vocab_size, self.eod, self.pad = vocab_size, eod, -1
        self.special_tokens_dict: dict[str, int] = {}
        self.unique_identifiers = {"vocab_size": vocab_size, "eod": eod}


def shuffled(data: DataPlan, samples: tuple[int, int, int]) -> Datasets:
    """megatron-core's datasets; attention and positions run across documents, every token is learned."""
    weights = data.weights if len(data.prefixes) > 1 else None
    config = GPTDatasetConfig(
        random_seed=data.seed,
        sequence_length=data.seq_length,
        blend=(data.prefixes, weights),
        split=data.split,
        num_dataset_builder_threads=data.threads,
        path_to_cache=data.cache,
        tokenizer=Vocabulary(data.vocab_size, data.eod),
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
        create_attention_mask=False,
    )
    for which in (1, 2):
        if not samples[which]:
            config.split_matrix[which] = (
                None  # else upstream indexes an empty share of a small shard and fails
            )
    train, valid, test = BlendedMegatronDatasetBuilder(
        GPTDataset, list(samples), lambda: True, config
    ).build()
    return train, valid, test


class PackedSequences(Dataset):
    """Records [first, last) of packed triples. An index beyond them starts again at the first."""

    def __init__(
        self, prefixes: list[str], share: Callable[[int], range], seq_length: int, pad: int, samples: int
    ) -> None:
        self.shards = [
            tuple(IndexedDataset(f"{prefix}_{part}", mmap=True) for part in PACKED_PARTS)
            for prefix in prefixes
        ]
        for prefix, shard in zip(prefixes, self.shards, strict=True):
            if len({len(part) for part in shard}) != 1:
                raise ValueError(
                    f"{prefix}: tokens, targets and cu_seqlens differ in their number of records"
                )
        self.ends = np.cumsum([len(shard[0]) for shard in self.shards])
        self.records = share(int(self.ends[-1]))
        self.seq_length, self.pad, self.samples = seq_length, pad, samples

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> Sample:
        record = self.records[index % len(self.records)]
        shard = int(np.searchsorted(self.ends, record, side="right"))
        row = record - (int(self.ends[shard - 1]) if shard else 0)
        tokens, targets, cu_seqlens = (part[row] for part in self.shards[shard])
        return packed_sample(tokens, targets, cu_seqlens, self.seq_length, self.pad)


def packed_sample(
    tokens: np.ndarray, targets: np.ndarray, cu_seqlens: np.ndarray, seq_length: int, pad: int
) -> Sample:
    """One packed record as the model reads it (as published). Raises ValueError on a malformed record.

    `targets` are unshifted, -100 where nothing is learned. The record is padded to seq_length + 1; the last
    sequence absorbs the padding. Returns tokens, labels, loss_mask, position_ids [L], cu_seqlens [C].
    """
    count, width = len(tokens), seq_length + 1
    if len(targets) != count:
        raise ValueError(f"{count} tokens but {len(targets)} targets")
    if count > width:
        raise ValueError(f"a record of {count} tokens is longer than the sequence length {seq_length} + 1")
    edges = cu_seqlens.astype(np.int64)
    if len(edges) < 2 or edges[0] != 0 or edges[-1] != count or (np.diff(edges) < 0).any():
        raise ValueError(f"cu_seqlens {edges.tolist()[:8]} do not divide {count} tokens")
    padded_tokens, padded_targets = (np.full(width, pad, dtype=np.int64) for _ in range(2))
    padded_tokens[:count], padded_targets[:count] = tokens, targets
    starts = np.repeat(edges[:-1], np.diff(edges))
    last = starts[-1] if len(starts) else 0  # padding counts on from the last position
    positions = np.arange(width) - np.concatenate([starts, np.full(width - count, last)])
    labels = padded_targets[1:]
    loss_mask = np.ones(seq_length, dtype=np.float32)
    if count <= seq_length:
        loss_mask[max(count - 1, 0) :] = 0.0
    loss_mask[labels == IGNORED] = 0.0
    edges[-1] = seq_length
    return {
        "tokens": torch.from_numpy(padded_tokens[:-1].copy()),
        "labels": torch.from_numpy(labels.copy()),
        "loss_mask": torch.from_numpy(loss_mask),
        "position_ids": torch.from_numpy(positions[:seq_length].copy()),
        "cu_seqlens": torch.from_numpy(edges.astype(np.int32)),
    }


def packed(data: DataPlan, samples: tuple[int, int, int]) -> Datasets:
    shares = [float(part) for part in data.split.split(",")]
    bounds = np.cumsum([0.0, *shares]) / sum(shares)

    def dataset(which: int) -> Dataset | None:
        if not samples[which]:
            return None

        def share(total: int) -> range:
            first, last = round(bounds[which] * total), round(bounds[which + 1] * total)
            if first == last:
                raise ValueError(f"split {data.split} leaves no packed sequence of {total} for a dataset")
            return range(first, last)

        return PackedSequences(data.prefixes, share, data.seq_length, data.eod, samples[which])

    return dataset(0), dataset(1), dataset(2)
