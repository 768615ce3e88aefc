"""Megatron and Hugging Face compute the same logits from the same weights, converted either way."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.model import small
from zgcm.config.load import validate_recipe
from zgcm.config.recipe import Recipe
from zgcm.io import write_json
from zgcm.model import published
from zgcm.model.convert import read_megatron, write_megatron
from zgcm.model.hf.modeling_zgcm import ZgcmForCausalLM
from zgcm.model.weights import write_safetensors


def fp32_recipe() -> Recipe:
    return validate_recipe(
        {
            "name": "parity",
            "model": small.MODEL.model_dump(exclude_defaults=True),
            "tokenizer": {"kind": "train", "vocab_size": small.VOCABULARY, "sources": ["text"]},
            "sources": {
                "text": {
                    **{"kind": "demo", "content": "code", "stage": "pretrain", "category": "code"},
                    "documents": 9,
                }
            },
            "mixes": {"all": {"sources": {"text": 1}}},
            "stages": {
                "one": {
                    **{"kind": "pretrain", "mix": {"all": 1}, "seq_length": 128, "bf16": False},
                    **{"engine": "local", "attention_backend": "unfused"},
                    **{"rotary_base": small.ROTARY_BASE, "micro_batch_size": 1, "global_batch_size": 1},
                    "optimizer": {"kind": "adam", "lr": 0.1, "distributed": False},
                    "schedule": {"train_iters": 1},
                }
            },
        },
        where="tests",
    )


@pytest.mark.slow
def test_logits_agree_beyond_the_window(tmp_path: Path) -> None:
    given = small.directory(tmp_path / "hf")
    write_megatron(given, tmp_path / "given", small.MODEL, small.VOCABULARY)
    command = [sys.executable, "-m", "tests.model.megatron_process", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr[-3000:]
    megatron = torch.load(tmp_path / "logits.pt")

    own = tmp_path / "own_hf"
    own.mkdir()
    shapes = published.shapes(small.MODEL, small.ROWS)
    named = read_megatron(tmp_path / "own", small.MODEL, small.VOCABULARY, small.ROWS)
    write_safetensors(own, shapes, named, torch.float32)
    write_json(own / "config.json", small.config())

    ids = small.tokens(100)  # six windows
    for source, directory in (("own", own), ("given", given)):
        network = ZgcmForCausalLM.from_pretrained(directory).eval()
        with torch.no_grad():
            ours = network(ids).logits[..., : small.VOCABULARY]
        assert ours.std() > 0.5
        assert (ours - megatron[source]).abs().max() <= 1e-4, source
