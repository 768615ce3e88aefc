"""Which machine this is, as far as a preflight's answers depend on it. No torch: a verb asks this."""

import platform
from pathlib import Path
from typing import Any

from zgcm.devices import gpus
from zgcm.rundir.provenance import versions

PACKAGES = (
    *("torch", "megatron-core", "emerging-optimizers", "transformer-engine", "flash-attn", "flash-attn-3"),
    "nvidia-nccl-cu13",
)


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
