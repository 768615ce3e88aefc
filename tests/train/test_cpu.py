"""The CPU in place of a GPU, in a process of its own as trainers are."""

import os
import subprocess
import sys

import pytest

STEP = """
from zgcm.train import cpu
cpu.install()
import torch
assert torch.cuda.device_count() == 1 and not torch.cuda.is_available()
weight = torch.nn.Parameter(torch.ones(2))
weight.sum().backward()
torch.optim.Adam([weight]).step()
"""


@pytest.mark.slow
def test_a_variable_that_vllm_leaves_behind_makes_no_gpu() -> None:
    environment = os.environ | {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
    ended = subprocess.run(
        [sys.executable, "-c", STEP], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
