"""What a recipe asks of a machine, as one digest. The rules ask this too, so nothing heavy is imported."""

from zgcm.config.base import semantic
from zgcm.config.recipe import Recipe
from zgcm.identity import digest


def needs_id(recipe: Recipe) -> str:
    """Digest of what the recipe asks of a machine: model, sandboxes, stages' precision, layout and engine."""
    stages = {
        name: {
            **{"fp8": stage.fp8 and semantic(stage.fp8), "bf16": stage.bf16, "engine": stage.engine},
            **{"attention_backend": stage.attention_backend, "parallel": stage.parallel.model_dump()},
            **{"optimizer": stage.optimizer.kind, "seq_length": stage.seq_length},
            "resources": stage.resources.model_dump(include={"nodes", "gpus_per_node", "processes_per_node"}),
        }
        for name, stage in recipe.train_stages().items()
    }
    return digest({"model": semantic(recipe.model), "stages": stages, "sandboxes": sandboxed(recipe)})


def sandboxed(recipe: Recipe) -> dict[str, int]:
    """Stages that judge programs in a sandbox of their own -> MiB that a program may take."""
    return {
        name: stage.reward.sandbox.memory_mb
        for name, stage in recipe.rl_stages().items()
        if stage.runs_programs() and stage.reward.sandbox.url is None
    }
