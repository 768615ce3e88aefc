"""vLLM generates what transformers generates: beyond the window, and after a weight sync."""

import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
import torch

from tests.model import small
from tests.model.vllm_process import NEW_TOKENS, prompts
from zgcm.io import read_json, write_json
from zgcm.model import published
from zgcm.model.export import MODEL_CODE
from zgcm.model.hf.modeling_zgcm import ZgcmForCausalLM
from zgcm.model.weights import write_safetensors


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
@pytest.mark.parametrize("implementation", ["zgcm.model.vllm", "vllm.model_executor.models.transformers"])
def test_greedy_tokens_equal_those_of_transformers(
    implementation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Natively, and through the model's remote code where the plugin is absent."""
    if implementation != "zgcm.model.vllm":
        monkeypatch.setenv("VLLM_PLUGINS", "")
        monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    small.directory(tmp_path / "hf")
    for name in MODEL_CODE:
        shutil.copy(files("zgcm.model.hf") / name, tmp_path / "hf")
    other = tmp_path / "other"
    other.mkdir()
    shapes = published.shapes(small.MODEL, small.ROWS)
    write_safetensors(other, shapes, iter(small.weights(seed=7).items()), torch.float32)
    write_json(other / "config.json", small.config())
    command = [sys.executable, "-m", "tests.model.vllm_process", str(tmp_path), str(tmp_path / "out.json")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr[-3000:]
    found = read_json(tmp_path / "out.json")
    assert found["module"] == implementation
    assert found["before"] == greedy(tmp_path / "hf")
    assert found["after"] == greedy(other)
    assert found["before"] != found["after"]
