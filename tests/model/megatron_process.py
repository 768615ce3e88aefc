"""Runs in a process of its own: megatron-core's model, built from a recipe's stage as the trainer builds it.

python -m tests.model.megatron_process WORKSPACE: saves a checkpoint of random weights below WORKSPACE/own and
its logits; loads the checkpoint below WORKSPACE/given, which was converted from a Hugging Face directory, and
saves its logits too.
"""

import os
import sys
from pathlib import Path


def main(workspace: Path) -> None:
    from tests.model import small  # before the CPU layer, which hides transformers from megatron-core
    from tests.model.test_megatron import fp32_recipe
    from zgcm.train import cpu

    cpu.install()
    import torch
    from megatron.core import dist_checkpointing, parallel_state
    from megatron.core.process_groups_config import ProcessGroupCollection
    from megatron.core.tensor_parallel import model_parallel_cuda_manual_seed
    from megatron.training.argument_utils import gpt_config_from_args
    from megatron.training.arguments import parse_and_validate_args
    from megatron.training.models.gpt import GPTModelBuilder

    from zgcm.layout import Layout
    from zgcm.model.megatron import block_spec
    from zgcm.train.arguments import Plan, megatron_argv
    from zgcm.train.entry import layer_spec

    os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{workspace / 'rendezvous'}", rank=0, world_size=1
    )
    parallel_state.initialize_model_parallel()
    model_parallel_cuda_manual_seed(1)
    recipe, layout = fp32_recipe(), Layout(workspace)
    options = megatron_argv(recipe, layout, "one", workspace / "run", Plan(1, 1))
    sys.argv = ["test", *(text for option in options for text in option)]
    arguments = parse_and_validate_args()
    config = gpt_config_from_args(arguments)
    config.transformer_layer_spec = layer_spec(block_spec, recipe.model.attention_output_gate)
    config.vocab_size = arguments.padded_vocab_size
    groups = ProcessGroupCollection.use_mpu_process_groups()
    network = GPTModelBuilder(config).build_model(groups).eval()
    ids = small.tokens(100)
    positions = torch.arange(100)[None]

    def logits() -> torch.Tensor:
        with torch.no_grad():
            return network(ids, positions, None)[..., : small.VOCABULARY]

    torch.manual_seed(5)
    for parameter in network.parameters():  # larger than the initialisation, so that every part matters
        scale = 0.2 if parameter.ndim == 1 else parameter.shape[1] ** -0.5
        torch.nn.init.normal_(parameter, 1.0 if parameter.ndim == 1 else 0.0, scale)
    own = workspace / "own"
    own.mkdir()
    dist_checkpointing.save({"model": network.sharded_state_dict()}, str(own))
    results = {"own": logits()}
    state = dist_checkpointing.load({"model": network.sharded_state_dict()}, str(workspace / "given/release"))
    network.load_state_dict(state["model"])
    results["given"] = logits()
    torch.save(results, workspace / "logits.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
