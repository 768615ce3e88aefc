"""Policy weights on their way from the learner to the rollout engines, with a checksum on both sides.

Through Ray's object store they travel as raw bytes (numpy has no bfloat16), which it shares between processes
of a node without a copy. By NCCL they travel tensor by tensor, and no process ever holds all of them.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypedDict

import numpy as np
import torch
import xxhash

Payload = dict[str, tuple[str, tuple[int, ...], np.ndarray]]
"""Published tensor name -> dtype, shape, bytes."""


class Description(TypedDict):
    """What a transfer will send, in order; vLLM's names."""

    names: list[str]
    dtype_names: list[str]
    shapes: list[list[int]]


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


def published(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The model's tensors (FSDP2: this process's shards) by published name, names sorted; tied ones once."""
    found: dict[str, torch.Tensor] = {}
    known: set[int] = set()
    # not named_parameters(): FSDP2 may have left tensors gathered, and state_dict() puts them back
    for name, tensor in sorted(model.state_dict(keep_vars=True).items()):
        if id(tensor) not in known:
            known.add(id(tensor))
            found[name] = tensor.detach()
    return found


def describe(model: torch.nn.Module, dtype: torch.dtype) -> Description:
    """What `gathered` will give. Gathers nothing."""
    tensors = published(model)
    return {
        "names": list(tensors),
        "dtype_names": [str(dtype).removeprefix("torch.")] * len(tensors),
        "shapes": [list(tensor.shape) for tensor in tensors.values()],
    }


def gathered(model: torch.nn.Module, dtype: torch.dtype) -> Iterator[tuple[str, torch.Tensor]]:
    """Whole tensors in `dtype`, one at a time. Collective: every process must take all of them, in step.

    Rounded before they are gathered, which gives the same bits and moves half the bytes.
    """
    for name, tensor in published(model).items():
        local: Any = tensor.to(dtype)
        yield name, local.full_tensor() if hasattr(local, "full_tensor") else local


class Checksum:
    """Digest of tensors by name, dtype, shape and bytes, in the order given.

    A GPU's tensor visits the host alone, so all of a model never lies there.
    """

    def __init__(self) -> None:
        self._hash = xxhash.xxh3_128()
        self.tensors = 0

    def add(self, name: str, tensor: torch.Tensor) -> None:
        self._hash.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        self._hash.update(tensor.contiguous().view(-1).view(torch.uint8).cpu().numpy())
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
