"""Which GPUs this machine has, and which attention kernels they and the packages here can run. No torch."""

import subprocess
from typing import Any

from zgcm.train.packages import FLASH_2, FLASH_3, is_installed

QUERY = ("nvidia-smi", "--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader")
HOPPER = "9.0"


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


def flash3(here: dict[str, Any]) -> str:
    """Why FlashAttention-3 cannot be used, or nothing."""
    if why := unfit("flash_attention_3", here):
        return why
    return "" if is_installed(*FLASH_3) else "FlashAttention-3 is not installed"


def flash2(here: dict[str, Any]) -> str:
    """Why FlashAttention-2 cannot be used, or nothing."""
    if why := unfit("flash_attention_2", here):
        return why
    return "" if is_installed(*FLASH_2) else "FlashAttention-2 is not installed"


def unfit(attention: str, here: dict[str, Any]) -> str:
    """Why this machine's GPUs cannot run an attention (`learner.attention`), or nothing."""
    if not here["gpus"]:
        return "there is no GPU"
    if attention == "flash_attention_3" and here["compute_capability"] != HOPPER:
        return f"FlashAttention-3 needs compute capability {HOPPER}, not {here['compute_capability']}"
    return ""


def missing(attention: str, here: dict[str, Any]) -> str:
    """Why a learner in this environment cannot run an attention (`learner.attention`), or nothing."""
    asks = {"flash_attention_3": flash3, "flash_attention_2": flash2}
    return asks[attention](here) if attention in asks else ""
