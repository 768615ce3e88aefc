"""Weights by NCCL, the learner's half: gather tensor after tensor, pack them into buckets, broadcast.

Runs in the learner's processes, and imports vLLM in the first one only. vLLM's own functions pack and
broadcast: the same in the versions of envs/rollout.yaml and of the laptop, whose classes around them differ.
"""

import socket
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor

from zgcm.rl.weights import Checksum, watched

BACKEND = "zgcm_nccl"
"""vLLM's name of our receiver."""
BUCKET_BYTES = 256 << 20
"""A bucket is sent once it exceeds this; the last tensor in it may be larger (a 7B's embedding: 1.3 GB)."""
BUFFERS = 2
"""Buckets in flight: the learner fills one while the engines load the other."""


def reserve(host: str) -> socket.socket:
    """A port for a group, kept from other processes (Ray's open hundreds) until `join` listens there.

    vLLM takes no socket, it binds one itself, with SO_REUSEADDR. Linux gives a port twice where both ask for
    that and none listens, and never of its own accord.
    """
    kept = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind((host, 0))
    return kept


def join(reserved: socket.socket, world_size: int) -> Any:
    """Rank 0 of the group at a reserved port, whose reservation ends; returns once all ranks are there."""
    from vllm.distributed.weight_transfer.nccl_common import trainer_init

    host, port = reserved.getsockname()
    with reserved:
        return trainer_init({"master_address": host, "master_port": port, "world_size": world_size})


def send(tensors: Iterator[tuple[str, Tensor]], group: Any | None) -> str:
    """Broadcast `tensors` to the engines. Returns their checksum.

    Every learner process must call it, for gathering is collective. Those without a group send nothing and
    return an empty string.
    """
    # the update ran on another stream than the broadcasts will
    torch.accelerator.synchronize()
    if group is None:
        for _ in tensors:
            pass
        return ""
    from vllm.distributed.weight_transfer.packed_tensor import packed_nccl_broadcast_producer

    total = Checksum()
    packed_nccl_broadcast_producer(
        iterator=watched(tensors, total),
        group=group,
        src=0,
        post_iter_func=itemgetter(1),
        buffer_size_bytes=BUCKET_BYTES,
        num_buffers=BUFFERS,
    )
    # vLLM 0.25 returns while the last buckets are under way, and the next update would overwrite them
    torch.accelerator.synchronize()
    return total.hexdigest()
