"""Part `kernels`: FP8 and flash attention, asked for by the recipe or not, here or not.

FP8 needs Transformer Engine and a GPU of compute capability 8.9 (Ada) or more. FlashAttention-3 needs Hopper
(9.0) and the module that Transformer Engine and transformers look for. RL's learner runs in an environment of
its own (envs/rollout.yaml), so of its attention only the GPU is looked at here; `zgcm rl` itself refuses to
start where the kernel is not installed.
"""

from collections.abc import Callable
from typing import Any

from zgcm.devices import flash2, flash3, gpus, unfit
from zgcm.preflight.answer import Answer, Task, failed, not_applicable, ran
from zgcm.train.packages import is_installed


def check(task: Task) -> Answer:
    stages = task.recipe.train_stages()
    asks_fp8 = [name for name, stage in stages.items() if stage.fp8 is not None]
    asks_flash = [
        name
        for name, stage in stages.items()
        if stage.engine == "transformer_engine" and stage.attention_backend in ("flash", "auto")
    ]
    here = gpus()
    found = {"fp8": fp8(here), "flash_attention_3": flash3(here), "flash_attention_2": flash2(here)}
    figures: dict[str, Any] = {
        name: {"available": not why, "why_not": why} for name, why in found.items()
    } | {"asked_fp8": asks_fp8, "asked_flash": asks_flash}
    problems = []
    if asks_fp8 and found["fp8"]:
        problems.append(f"{', '.join(asks_fp8)} ask for FP8, but {found['fp8']}")
    if asks_flash and found["flash_attention_3"] and found["flash_attention_2"]:
        reasons = dict.fromkeys((found["flash_attention_3"], found["flash_attention_2"]))  # may be the same
        problems.append(f"{', '.join(asks_flash)} ask for flash attention, but {' and '.join(reasons)}")
    for name, stage in task.recipe.rl_stages().items():
        wanted = stage.learner.attention
        if stage.resources.gpus_per_node and (why := unfit(wanted, here)):
            problems.append(f"{name} asks for learner.attention: {wanted}, but {why}")
    if problems:
        return failed("; ".join(problems), **figures)
    if not here["gpus"]:
        return not_applicable("no GPU, and the recipe asks for neither FP8 nor flash attention", **figures)
    states = [f"{name.replace('_', ' ')} {'no: ' + why if why else 'yes'}" for name, why in found.items()]
    return ran("; ".join(states), **figures)


def fp8(here: dict[str, Any]) -> str:
    """Why FP8 cannot be used, or nothing. Transformer Engine itself is asked where it is installed."""
    if not here["gpus"]:
        return "there is no GPU"
    if not is_installed("transformer_engine"):
        return "Transformer Engine is not installed"
    return asked(_transformer_engine_fp8)


def asked(question: Callable[[], tuple[bool, str]]) -> str:
    """The engine's own answer; a half-installed one fails in its own way, which is the answer then."""
    try:
        available, why = question()
    except (ImportError, OSError, RuntimeError) as error:
        return f"Transformer Engine does not work: {error}"
    return "" if available else why or "Transformer Engine says no"


def _transformer_engine_fp8() -> tuple[bool, str]:
    import transformer_engine.pytorch as te

    return te.is_fp8_available(return_reason=True)
