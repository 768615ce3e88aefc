"""Runs in a process of its own: one step of Muon on the first of several tensor-parallel ranks.

python -m tests.train.muon_process DIRECTORY writes DIRECTORY/{ranks}_{precision}.pt. The other ranks are
pretended (torch's "fake" group): with blockwise Muon no rank needs them, and a step that did would compute
with what nobody sent, and fail the test.
"""

import sys
from pathlib import Path
from typing import Any

RANKS, PRECISIONS = (1, 2, 4, 8), ("highest", "medium")
LEARNING_RATE, WEIGHT_DECAY, MOMENTUM, QUERY_GROUPS = 0.01, 0.1, 0.9, 8


def one_step(tensor: int, precision: str) -> dict[str, dict[str, Any]]:
    """Parameter -> its value before and after, its gradient, whether it decays; of rank 0 of `tensor`."""
    import torch
    from megatron.core import parallel_state
    from megatron.core.optimizer import (
        OptimizerConfig,
        get_megatron_optimizer,
        get_standard_config_overrides,
    )
    from megatron.core.tensor_parallel import model_parallel_cuda_manual_seed
    from torch.testing._internal.distributed.fake_pg import FakeStore

    from tests.train.engine import tiny_model
    from zgcm.train import muon

    torch.distributed.init_process_group("fake", rank=0, world_size=tensor, store=FakeStore())
    parallel_state.initialize_model_parallel(tensor, create_gloo_process_groups=False)
    model_parallel_cuda_manual_seed(1)
    muon.install()
    model = tiny_model(query_groups=QUERY_GROUPS).bfloat16()
    config = OptimizerConfig(
        **{"optimizer": "muon", "lr": LEARNING_RATE, "weight_decay": WEIGHT_DECAY, "clip_grad": 0.0},
        **{"muon_momentum": MOMENTUM, "muon_fp32_matmul_prec": precision, "muon_nesterov": False},
        **{"muon_tp_mode": "blockwise", "bf16": True, "params_dtype": torch.bfloat16},
    )
    optimizer = get_megatron_optimizer(
        config,
        [model],
        config_overrides=get_standard_config_overrides(config),
        use_gloo_process_groups=False,
    )
    torch.manual_seed(1)
    seen = {}
    for name, parameter in model.named_parameters():
        parameter.main_grad = torch.randn(parameter.shape)
        seen[name] = {"before": parameter.detach().float(), "gradient": parameter.main_grad.clone()}
    for group in optimizer.param_groups:
        group["lr"] = LEARNING_RATE
    decays = {
        id(parameter): group["wd_mult"] for group in optimizer.param_groups for parameter in group["params"]
    }
    optimizer.step()
    for name, parameter in model.named_parameters():
        seen[name] |= {"after": parameter.main_param.clone(), "decays": decays[id(parameter.main_param)]}
    parallel_state.destroy_model_parallel()
    torch.distributed.destroy_process_group()
    return seen


def main(directory: Path) -> None:
    from zgcm.train import cpu

    cpu.install()
    import torch

    for ranks in RANKS:
        for precision in PRECISIONS:
            torch.save(one_step(ranks, precision), directory / f"{ranks}_{precision}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
