"""vLLM generates what transformers generates: beyond the window, and after a weight sync."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.model import small
from tests.model.vllm_process import NEW_TOKENS, prompts
from zgcm.io import read_json, write_json
from zgcm.model import published
from zgcm.model.convert import write_safetensors
from zgcm.model.hf.modeling_zgcm import ZgcmForCausalLM


def greedy(directory: Path) -> list[list[int]]:
    network = ZgcmForCausalLM.from_pretrained(directory).eval()
    made = []
    for prompt in prompts():
        ids = torch.tensor([prompt])
        out = network.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=NEW_TOKENS,
            do_sample=False,
            eos_token_id=None,
        )
        made.append(out[0, len(prompt) :].tolist())
    return made


@pytest.mark.slow
def test_greedy_tokens_equal_those_of_transformers(tmp_path: Path) -> None:
    small.directory(tmp_path / "hf")
    other = tmp_path / "other"
    other.mkdir()
    shapes = published.shapes(small.MODEL, small.ROWS)
    write_safetensors(other, shapes, iter(small.weights(seed=7).items()), torch.float32)
    write_json(other / "config.json", small.config())
    command = [sys.executable, "-m", "tests.model.vllm_process", str(tmp_path), str(tmp_path / "out.json")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr[-3000:]
    found = read_json(tmp_path / "out.json")
    assert found["module"] == "zgcm.model.vllm"
    assert found["before"] == greedy(tmp_path / "hf")
    assert found["after"] == greedy(other)
    assert found["before"] != found["after"]
