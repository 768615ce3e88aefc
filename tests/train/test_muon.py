"""One real Muon step of megatron-core, through its mixed-precision wrapper, against plain float64."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.train import muon_process
from tests.train.engine import one_process_engine, tiny_model

COEFFICIENTS = [
    (4.0848, -6.8946, 2.9270),
    (3.9505, -6.3029, 2.6377),
    (3.7418, -5.5913, 2.3037),
    (2.8769, -3.1427, 1.2046),
    (2.8366, -3.0525, 1.2012),
]


def orthogonalise(matrix):
    """Newton-Schulz with the published coefficients, then the spectral scale sqrt(max(rows, columns))."""
    import torch

    wide = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = wide / wide.norm()
    for a, b, c in COEFFICIENTS:
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    x = x.T if matrix.shape[0] > matrix.shape[1] else x
    return x * torch.tensor(float(max(matrix.shape)), dtype=torch.float64).sqrt()


def expected_update(gradient, split, groups):
    """Each block of a fused projection (rows of all groups together) on its own."""
    import torch

    if split is None:
        return orthogonalise(gradient)
    blocks = torch.split(gradient.view(groups, sum(split), -1), split, dim=1)
    flat = [orthogonalise(block.reshape(-1, gradient.shape[1])) for block in blocks]
    shaped = [part.view(groups, rows, -1) for part, rows in zip(flat, split, strict=True)]
    return torch.cat(shaped, dim=1).view(gradient.shape)


@pytest.mark.parametrize("gate", ["window", "all", "none"])
def test_one_step_equals_float64(gate):
    one_process_engine()
    import torch
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer

    from zgcm.train import muon

    muon.install()
    model = tiny_model(gate).bfloat16()
    rate, decay, momentum, groups = 0.01, 0.1, 0.9, 2
    config = OptimizerConfig(
        **{"optimizer": "muon", "lr": rate, "weight_decay": decay, "clip_grad": 0.0},
        **{"muon_momentum": momentum, "muon_fp32_matmul_prec": "highest", "muon_nesterov": False},
        **{"muon_tp_mode": "blockwise", "bf16": True, "params_dtype": torch.bfloat16},
    )
    optimizer = get_megatron_optimizer(config, [model], config_overrides={})
    torch.manual_seed(1)
    names = {}
    for name, parameter in model.named_parameters():
        parameter.main_grad = torch.randn(parameter.shape)
        names[name] = (parameter.detach().double().clone(), parameter.main_grad.double().clone())
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    checked = set()
    for name, parameter in model.named_parameters():
        before, gradient = names[name]
        if parameter.ndim != 2 or "embedding" in name or "output_layer" in name:
            continue
        split = None
        if "linear_qkv" in name:
            layer = int(name.split("layers.")[1].split(".")[0]) + 1
            gated = gate == "all" or (gate == "window" and layer % 2 != 0)
            split = [32, 32, 16, 16] if gated else [32, 16, 16]
            checked.add((layer, gated))
        update = expected_update((1 - momentum) * gradient, split, groups)
        expected = before * (1 - rate * decay) - rate * update
        torch.testing.assert_close(parameter.main_param.double(), expected, rtol=0, atol=2e-6, msg=name)
    assert {layer for layer, _ in checked} == {1, 2}


@pytest.fixture(scope="module")
def steps(tmp_path_factory):
    """Directory of what muon_process saved: one step for every tensor-parallel size and precision."""
    directory = tmp_path_factory.mktemp("steps")
    ran = subprocess.run(
        [sys.executable, "-m", "tests.train.muon_process", str(directory)],
        **{"cwd": Path(__file__).parents[2], "env": {**os.environ, "OMP_NUM_THREADS": "1"}},
        **{"capture_output": True, "text": True},
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return directory


@pytest.mark.parametrize(("precision", "tolerance"), [("highest", 1e-5), ("medium", 2e-2)])
@pytest.mark.parametrize("ranks", muon_process.RANKS)
def test_each_rank_splits_its_own_groups(ranks, precision, tolerance, steps):
    """Blockwise: a rank orthogonalises and scales the blocks that it holds, whatever the others do."""
    import torch

    seen = torch.load(steps / f"{ranks}_{precision}.pt")
    matrices = {
        name: one for name, one in seen.items() if "decoder.layers" in name and one["before"].ndim == 2
    }
    assert len(matrices) == 8
    for name, one in matrices.items():
        split = None
        if "linear_qkv" in name:
            split = [32, 32, 16, 16] if "layers.0" in name else [32, 16, 16]
            assert one["before"].shape[0] == muon_process.QUERY_GROUPS * sum(split) // ranks
        gradient = (1 - muon_process.MOMENTUM) * one["gradient"].double()
        expected = expected_update(gradient, split, muon_process.QUERY_GROUPS // ranks)
        decayed = one["before"].double() * (1 - muon_process.LEARNING_RATE * muon_process.WEIGHT_DECAY)
        update = (decayed - one["after"].double()) / muon_process.LEARNING_RATE
        assert (update - expected).norm() / expected.norm() < tolerance, name
    for name, one in seen.items():
        assert one["decays"] == (0.0 if one["before"].ndim == 1 else 1.0), name


def test_part_of_a_group_is_refused():
    one_process_engine()
    import torch

    from zgcm.errors import ZgcmError
    from zgcm.train import muon

    model = tiny_model("window")
    attention = model.decoder.layers[0].self_attention
    attention.linear_qkv.weight = torch.nn.Parameter(attention.linear_qkv.weight[:48].detach().clone())
    with pytest.raises(ZgcmError, match="part of a query group"):
        muon.tag_splits(model)
