"""One process of a group: writes what it is and the sum of all ranks."""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor(dist.get_rank())
dist.all_reduce(total)
rank, node = dist.get_rank(), os.environ["SLURMD_NODENAME"]
facts = [rank, os.environ["LOCAL_RANK"], dist.get_world_size(), int(total), node]
Path(sys.argv[1], f"rank_{rank}").write_text(" ".join(map(str, facts)))
dist.destroy_process_group()
