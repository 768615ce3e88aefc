"""One rank of the all-reduce measurement: python -m zgcm.preflight.allreduce_process SETTINGS.json

Bus bandwidth = bytes / seconds x 2 (n - 1) / n, nccl-tests' convention: what a ring sends over each link, so
the figure can be held against the hardware's whatever the number of ranks n.
"""

import os
import socket
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

WARM_UPS = 3
SECONDS = 1.0  # of measuring, a size
MOST_ROUNDS = 200


def main(settings_file: str) -> None:
    import torch
    import torch.distributed as dist

    from zgcm.io import read_json, write_json
    from zgcm.preflight.machine import machine

    settings = read_json(Path(settings_file))
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    backend = "nccl" if on_gpu else "gloo"
    dist.init_process_group(backend, timeout=timedelta(minutes=10))
    rank, world = dist.get_rank(), dist.get_world_size()
    rows, wrong = [], []
    for size in settings["sizes"]:
        seconds, is_right = measure(size, device, rank, world)
        rows.append({"bytes": size, "seconds": seconds, **bandwidth(size, seconds, world)})
        if not is_right:
            wrong.append(size)
    facts: list[Any] = [None] * world
    dist.all_gather_object(facts, (socket.gethostname(), machine()))
    if rank == 0:
        found = {"backend": backend, "processes": world, "bandwidth": rows, "wrong": wrong}
        write_json(Path(settings["result"]), {**found, "hosts": dict(facts)})
    dist.barrier()
    dist.destroy_process_group()


def bandwidth(size: int, seconds: float, world: int) -> dict[str, float]:
    """GB/s, 1 GB = 1e9 bytes."""
    algorithm = size / seconds / 1e9
    return {"algorithm_gb_s": algorithm, "bus_gb_s": algorithm * 2 * (world - 1) / world}


def measure(size: int, device: Any, rank: int, world: int) -> tuple[float, bool]:
    """(seconds of one all-reduce, of the slowest rank; whether every rank got the right sum)."""
    import torch
    import torch.distributed as dist

    def once(tensor: torch.Tensor) -> float:
        dist.barrier()
        began = time.perf_counter()
        dist.all_reduce(tensor)
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began

    numbers = torch.full((size // 4,), float(rank + 1), device=device)
    once(numbers)
    right = torch.tensor([float(bool((numbers == world * (world + 1) / 2).all()))], device=device)
    dist.all_reduce(right, op=dist.ReduceOp.MIN)
    zeros = torch.zeros_like(numbers)
    warm = torch.tensor([min(once(zeros) for _ in range(WARM_UPS))], device=device)
    dist.all_reduce(warm, op=dist.ReduceOp.MAX)  # all ranks must agree on the number of rounds
    rounds = int(min(max(SECONDS / warm.item(), 3), MOST_ROUNDS))
    times = torch.tensor([once(zeros) for _ in range(rounds)], device=device)
    dist.all_reduce(times, op=dist.ReduceOp.MAX)
    return times.median().item(), bool(right.item())


if __name__ == "__main__":
    main(sys.argv[1])
