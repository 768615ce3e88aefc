"""Part `losses`: 20 steps of every precision the recipe trains in, against bf16, through the real trainer.

FP8 is compared with its parameters gathered in FP8 and not: with layer-wise Muon, releases of megatron-core
have gathered FP8 parameters that updates never reached, and the loss stayed flat. A recipe of bf16 alone is
compared with fp32.
"""

from typing import Any

from zgcm.config.base import semantic
from zgcm.config.stages import TrainStage
from zgcm.devices import gpus
from zgcm.preflight import kernels
from zgcm.preflight.answer import Answer, Task, failed, not_applicable, ran
from zgcm.preflight.trial import run_trial, trial_stage

STEPS = 20
LARGEST_GAP = 0.1
"""Of the mean distance to the reference, as a part of what the reference learns in these steps. Weights
that no update reaches have a gap of about 0.5; bf16 against fp32 has 0.0002 on the tiny recipe, 0.03 on a
model of 32 channels."""

Variants = dict[str, dict[str, Any]]


def check(task: Task) -> Answer:
    told, figures, problems = [], {}, []
    for name, stage in distinct(task).items():
        compared = variants(stage)
        if isinstance(compared, str):
            told.append(f"{name}: {compared}")
            continue
        curves = {}
        for label, changes in compared.items():
            trial, file = trial_stage(stage, STEPS, **changes), f"{name}_{label.replace(' ', '_')}"
            log = task.logs / f"losses_{file}.log"
            curves[label] = run_trial(task.recipe, trial, task.work / file, log).losses
        figures[name] = compare(curves)
        told.append(f"{name}: {words(curves, figures[name]['gaps'])}")
        problems += [f"{name}: {problem}" for problem in find_problems(curves, figures[name]["gaps"])]
    if problems:
        return failed("; ".join(problems), **figures)
    if not figures:
        return not_applicable("; ".join(told) or "the recipe has no stage that megatron-core trains")
    return ran("; ".join(told), **figures)


def compare(curves: dict[str, list[float]]) -> dict[str, Any]:
    """Curves by label, the reference first -> their gaps to it: mean distance by the reference's fall."""
    reference, *others = curves
    fall = curves[reference][0] - curves[reference][-1]
    gaps = {}
    for label in others if fall > 0 else []:
        pairs = zip(curves[label], curves[reference], strict=True)
        gaps[label] = sum(abs(a - b) for a, b in pairs) / len(curves[reference]) / fall
    return {"reference": reference, "losses": curves, "gaps": gaps}


def find_problems(curves: dict[str, list[float]], gaps: dict[str, float]) -> list[str]:
    reference = next(iter(curves))
    if not gaps:
        return [f"{reference} learns nothing in {STEPS} steps, so nothing can be compared"]
    far = {label: gap for label, gap in gaps.items() if gap > LARGEST_GAP}
    return [
        f"{words({reference: curves[reference], label: curves[label]}, far)}, over {LARGEST_GAP}"
        for label in far
    ]


def words(curves: dict[str, list[float]], gaps: dict[str, float]) -> str:
    ends = {label: f"{label} {losses[0]:.3f} -> {losses[-1]:.3f}" for label, losses in curves.items()}
    return ", ".join(ends[label] + (f" (gap {gaps[label]:.2g})" if label in gaps else "") for label in curves)


def distinct(task: Task) -> dict[str, TrainStage]:
    """The first stage of each precision and layer implementation."""
    found: dict[str, TrainStage] = {}
    for name, stage in task.recipe.train_stages().items():
        key = (stage.bf16, stage.engine, stage.fp8 and semantic(stage.fp8))
        if key not in [(s.bf16, s.engine, s.fp8 and semantic(s.fp8)) for s in found.values()]:
            found[name] = stage
    return found


def variants(stage: TrainStage) -> Variants | str:
    """label -> changes, the reference first; or why there is nothing to compare."""
    if stage.engine == "transformer_engine" and not gpus()["gpus"]:
        return "there is no GPU for Transformer Engine's layers"
    if stage.fp8 is not None:
        if why := kernels.fp8(gpus()):
            return f"FP8 cannot be used: {why}"
        own, other = stage.fp8.param_gather, not stage.fp8.param_gather
        gather = {True: "fp8 with param-gather", False: "fp8 without param-gather"}
        return {"bf16": {"fp8": None}, gather[own]: {}, gather[other]: {"fp8": {"param_gather": other}}}
    if not stage.bf16:
        return "fp32, which nothing is more exact than"
    if stage.engine == "transformer_engine":
        return "bf16 itself; flash attention has no fp32 to compare with"
    # megatron-core's layer-wise Muon takes bf16 parameters only.
    return {"fp32": {"bf16": False, "optimizer": {"distributed": False}}, "bf16": {}}
