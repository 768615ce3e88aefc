"""Part `versions`: are the packages, the GPUs and the number of GPUs those that the recipe trains with."""

from typing import Any

from zgcm.preflight.answer import Answer, Task, failed, ran
from zgcm.preflight.machine import machine

NEEDED = ("torch", "megatron-core", "emerging-optimizers")


def check(task: Task) -> Answer:
    here = machine()
    stages = task.recipe.train_stages().values()
    wanted = max((stage.resources.gpus_per_node for stage in stages), default=0)
    problems = missing(here["versions"], any(stage.engine == "transformer_engine" for stage in stages))
    if wanted > here["gpus"]:
        problems.append(f"the recipe asks for {wanted} GPUs a node, nvidia-smi shows {here['gpus']}")
    if problems:
        return failed("; ".join(problems), **here)
    return ran(words(here), **here)


def missing(versions: dict[str, str], transformer_engine: bool) -> list[str]:
    needed = [*NEEDED, *(["transformer-engine"] if transformer_engine else [])]
    return [f"{package} is not installed" for package in needed if package not in versions]


def words(here: dict[str, Any]) -> str:
    gpu = f"{here['gpus']} x {here['gpu']} (compute capability {here['compute_capability']})"
    where = gpu if here["gpus"] else f"no GPU, {here['processor']}"
    packages = [f"{name} {here['versions'][name]}" for name in ("torch", "megatron-core")]
    return ", ".join([where, *packages])
