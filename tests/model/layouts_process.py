"""Runs in a process of its own: what each rank of a layout holds of the 7B model, on torch's meta device.

python -m tests.model.layouts_process ANSWER STAGE:TP,PP,CP...: one line of JSON a layout in file ANSWER.
Rank 0 of every pipeline stage is built from the stage's own options by megatron-core's builder, in a group of
TP x PP x CP ranks that torch only pretends.
"""

import json
import os
import sys
from pathlib import Path

from zgcm.config.load import read_mapping, validate_recipe
from zgcm.config.recipe import Recipe, deep_merge

CHECKOUT = Path(__file__).parents[2]


def recipe_on_cpu(stage: str, tensor: int, pipeline: int, context: int) -> Recipe:
    """The published recipe in another layout, without what only a GPU has."""
    change = {
        **{"engine": "local", "fp8": None, "attention_backend": "unfused", "cross_entropy_fusion": "none"},
        **{"gradient_accumulation_fusion": False, "recompute": None},
        "parallel": {
            **{"tensor": tensor, "pipeline": pipeline, "context": context, "tp_comm_overlap": False},
        },
        "resources": {"nodes": 1, "gpus_per_node": 0, "processes_per_node": tensor * pipeline * context},
        **{"micro_batch_size": 1, "global_batch_size": 8},
    }
    published = read_mapping(CHECKOUT / "config/zgcm-7b.yaml")
    return validate_recipe(deep_merge(published, {"stages": {stage: change}}), "the layout")


def ranks(run: Path, stage: str, tensor: int, pipeline: int, context: int) -> list[dict[str, list[int]]]:
    """Parameter -> shape, of rank 0 of every pipeline stage; layers have the numbers of the whole model."""
    import torch
    from megatron.core import parallel_state
    from megatron.core.process_groups_config import ProcessGroupCollection
    from megatron.core.tensor_parallel import model_parallel_cuda_manual_seed
    from megatron.training.argument_utils import gpt_config_from_args
    from megatron.training.arguments import parse_and_validate_args
    from megatron.training.global_vars import unset_global_variables
    from megatron.training.models.gpt import GPTModelBuilder
    from torch.testing._internal.distributed.fake_pg import FakeStore

    from zgcm.layout import Layout
    from zgcm.model.megatron import block_spec
    from zgcm.train.arguments import Plan, megatron_argv
    from zgcm.train.entry import layer_spec

    world = tensor * pipeline * context
    os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"  # megatron-core insists, as zgcm.train.launch sets it
    recipe = recipe_on_cpu(stage, tensor, pipeline, context)
    options = megatron_argv(recipe, Layout(Path("results")), stage, run, Plan(100, 100))
    sys.argv = ["test", *(text for option in options for text in option)]
    found = []
    for pipeline_rank in range(pipeline):
        rank = pipeline_rank * tensor * context
        os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": "0"}
        torch.distributed.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
        parallel_state.initialize_model_parallel(
            tensor, pipeline, context_parallel_size=context, create_gloo_process_groups=False
        )
        model_parallel_cuda_manual_seed(1)
        arguments = parse_and_validate_args()
        config = gpt_config_from_args(arguments)
        config.transformer_layer_spec = layer_spec(block_spec, recipe.model.attention_output_gate)
        config.vocab_size = arguments.padded_vocab_size
        config.transformer.perform_initialization = False
        groups = ProcessGroupCollection.use_mpu_process_groups()
        ends = {"pre_process": pipeline_rank == 0, "post_process": pipeline_rank == pipeline - 1}
        with torch.device("meta"):
            network = GPTModelBuilder(config).build_model(groups, **ends)
        offset = pipeline_rank * (recipe.model.num_layers // pipeline)
        found.append(
            {whole_model_name(name, offset): list(value.shape) for name, value in network.named_parameters()}
        )
        parallel_state.destroy_model_parallel()
        torch.distributed.destroy_process_group()
        unset_global_variables()
    return found


def whole_model_name(name: str, offset: int) -> str:
    before, layers, after = name.partition("layers.")
    if not layers:
        return name
    number, dot, rest = after.partition(".")
    return f"{before}{layers}{int(number) + offset}{dot}{rest}"


if __name__ == "__main__":
    from zgcm.train import cpu

    cpu.install()
    answer, *layouts = sys.argv[1:]  # megatron-core reads sys.argv too
    with Path(answer).open("w") as lines:
        for layout in layouts:
            stage, _, sizes = layout.partition(":")
            print(json.dumps(ranks(Path(answer).parent, stage, *map(int, sizes.split(",")))), file=lines)
