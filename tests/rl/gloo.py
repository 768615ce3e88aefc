"""NCCL's place taken by gloo: what a transfer of weights needs of CUDA, on a CPU.

vLLM's ranks, packing, unpacking and loading stay its own. Replaced are the communicator, streams (all work is
done when a call returns) and the number of the current device.
"""

import contextlib
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist


class Stream:
    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def synchronize(self) -> None:
        pass


class Communicator:
    """As much of vLLM's PyNcclCommunicator as a transfer uses."""

    def __init__(self, host: str, port: int, rank: int, world: int, device: int) -> None:
        store = dist.TCPStore(host, port, world, is_master=rank == 0, timeout=timedelta(seconds=60))
        self.group = dist.ProcessGroupGloo(store, rank, world, timedelta(seconds=60))
        self.rank, self.world_size = rank, world
        self.largest = self.broadcasts = 0

    def broadcast(self, tensor: torch.Tensor, src: int, stream: Any = None) -> None:
        options = dist.BroadcastOptions()
        options.rootRank, options.rootTensor = src, 0
        self.group.broadcast([tensor], options).wait()
        self.largest, self.broadcasts = max(self.largest, tensor.nbytes), self.broadcasts + 1

    def destroy(self) -> None:
        pass


def install() -> None:
    """In this process, before anything joins a transfer."""
    from vllm.distributed.weight_transfer import nccl_common

    nccl_common.stateless_init_process_group = Communicator
    torch.cuda.Stream = Stream
    torch.cuda.stream = lambda stream: contextlib.nullcontext()
    torch.accelerator.synchronize = lambda *_: None
    torch.accelerator.current_device_index = lambda: 0
