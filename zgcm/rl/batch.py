"""Lay trajectories out as the rows of a micro-batch, and deal micro-batches to processes.

Axes: R rows of a micro-batch, L tokens of a row, T response tokens of a micro-batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from zgcm.rl.packing import first_fit_decreasing
from zgcm.rl.trajectory import Trajectory


@dataclass(frozen=True)
class MicroBatch:
    """`row_T`, `column_T` find the position whose hidden state predicts each response token."""

    input_ids_RL: Tensor
    position_ids_RL: Tensor | None
    row_T: Tensor
    column_T: Tensor
    targets_T: Tensor
    behaviour_T: Tensor
    advantages_T: Tensor


def micro_batch(trajectories: Sequence[Trajectory], *, packed: bool, device: torch.device) -> MicroBatch:
    """Trajectories as rows padded on the right (causal attention never sees the padding); or, `packed`, all
    in one row with positions that restart, which flash attention keeps apart without computing padding."""
    rows, columns, start = [], [], 0
    for number, item in enumerate(trajectories):
        first = start + len(item.prompt_ids) - 1
        rows.append(torch.full((len(item.token_ids),), 0 if packed else number))
        columns.append(torch.arange(first, first + len(item.token_ids)))
        start += len(item) if packed else 0
    sequences = [torch.tensor(item.prompt_ids + item.token_ids) for item in trajectories]
    position_ids_RL = None
    if packed:
        input_ids_RL = torch.cat(sequences)[None]
        position_ids_RL = torch.cat([torch.arange(len(item)) for item in trajectories])[None].to(device)
    else:
        input_ids_RL = nn.utils.rnn.pad_sequence(sequences, batch_first=True)
    advantages = [torch.full((len(item.token_ids),), item.advantage) for item in trajectories]
    return MicroBatch(
        input_ids_RL.to(device),
        position_ids_RL,
        torch.cat(rows).to(device),
        torch.cat(columns).to(device),
        torch.tensor([token for item in trajectories for token in item.token_ids]).to(device),
        flat([item.logprobs for item in trajectories], device),
        torch.cat(advantages).float().to(device),
    )


def flat(values: Sequence[Sequence[float]], device: torch.device) -> Tensor:
    """Per-trajectory lists as one fp32 tensor over response tokens."""
    return torch.tensor([value for item in values for value in item], dtype=torch.float32, device=device)


@dataclass(frozen=True)
class Share:
    """Indices of one process's next micro-batch. A `filler` repeats the first one with weight zero: sharded
    processes must run equally many forward passes, or their collectives wait for ever."""

    indices: list[int]
    filler: bool


def shares(
    indices: Sequence[int], lengths: Sequence[int], *, capacity: int, rank: int, world: int
) -> list[Share]:
    """Micro-batches of `rank`: every `world`-th first-fit-decreasing bin. `lengths` follow `indices`."""
    bins = [[indices[item] for item in one] for one in first_fit_decreasing(lengths, capacity)]
    rounds = -(-len(bins) // world)
    return [
        Share(bins[place], False) if (place := turn * world + rank) < len(bins) else Share(bins[0], True)
        for turn in range(rounds)
    ]
