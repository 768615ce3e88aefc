"""Which machine this is, as far as a preflight's answers depend on it. No torch: a verb asks this."""

import platform
import subprocess
from pathlib import Path
from typing import Any

from zgcm.rundir.provenance import versions

PACKAGES = (
    *("torch", "megatron-core", "emerging-optimizers", "transformer-engine", "flash-attn", "flash-attn-3"),
    "nvidia-nccl-cu13",
)
QUERY = ("nvidia-smi", "--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader")


def machine() -> dict[str, Any]:
    """Kind of processor and GPU, driver, versions. No host name: the nodes of a cluster are one kind."""
    packages = versions(PACKAGES)
    del packages["executable"]
    return {"processor": processor(), "architecture": platform.machine(), **gpus(), "versions": packages}


def processor() -> str:
    """The CPU's model name, where the kernel tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def gpus() -> dict[str, Any]:
    """Number, name, compute capability (9.0: Hopper, 10.0: Blackwell), driver; without GPUs 0 and None."""
    try:
        answer = subprocess.run(QUERY, capture_output=True, text=True, timeout=60)
        rows = [line.split(", ") for line in answer.stdout.splitlines() if line.count(", ") == 2]
    except (OSError, subprocess.TimeoutExpired):
        rows = []
    if not rows:
        return {"gpus": 0, "gpu": None, "compute_capability": None, "driver": None}
    name, capability, driver = (" and ".join(sorted(set(column))) for column in zip(*rows, strict=True))
    return {"gpus": len(rows), "gpu": name, "compute_capability": capability, "driver": driver}
