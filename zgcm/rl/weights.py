"""Policy weights on their way from the learner to the rollout engines, with a checksum on both sides.

They travel as raw bytes (numpy has no bfloat16), which Ray's object store shares between processes of a node
without a copy.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
import xxhash

Payload = dict[str, tuple[str, tuple[int, ...], np.ndarray]]
"""Published tensor name -> dtype, shape, bytes."""


def pack(state: Mapping[str, torch.Tensor], dtype: torch.dtype) -> Payload:
    """Bytes of every tensor in `dtype`, names sorted."""
    payload: Payload = {}
    for name in sorted(state):
        tensor = state[name].detach().to("cpu", dtype).contiguous()
        data = tensor.view(-1).view(torch.uint8).numpy().copy()
        payload[name] = (str(dtype).removeprefix("torch."), tuple(tensor.shape), data)
    return payload


def unpack(payload: Payload) -> Iterator[tuple[str, torch.Tensor]]:
    for name, (dtype, shape, data) in payload.items():
        # a copy: Ray hands out read-only memory, which torch cannot express
        yield name, torch.from_numpy(data.copy()).view(getattr(torch, dtype)).view(shape)


class Checksum:
    """Digest of tensors by name, dtype, shape and bytes, in the order given."""

    def __init__(self) -> None:
        self._hash = xxhash.xxh3_128()
        self.tensors = 0

    def add(self, name: str, tensor: torch.Tensor) -> None:
        self._hash.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        self._hash.update(tensor.contiguous().view(-1).view(torch.uint8).numpy())
        self.tensors += 1

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


def checksum(tensors: Iterator[tuple[str, torch.Tensor]]) -> str:
    total = Checksum()
    for name, tensor in tensors:
        total.add(name, tensor)
    return total.hexdigest()


def watched(tensors: Iterator[tuple[str, torch.Tensor]], total: Checksum) -> Iterator[tuple[str, Any]]:
    """Pass tensors on, adding each to `total`: the digest of what a loader really took."""
    for name, tensor in tensors:
        total.add(name, tensor)
        yield name, tensor
