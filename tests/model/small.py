"""A small model of the recipe's shape: windows and a global layer, grouped heads, gates on window layers."""

from pathlib import Path

import torch

from zgcm.config.model import Model
from zgcm.io import write_json
from zgcm.model import published
from zgcm.model.hf.configuration_zgcm import ZgcmConfig
from zgcm.model.hf.modeling_zgcm import ZgcmForCausalLM
from zgcm.model.weights import write_safetensors

VOCABULARY = 250
WINDOW = 16
ROTARY_BASE = 10_000
CONTEXT = 256

MODEL = Model(
    num_layers=6,
    hidden_size=64,
    ffn_hidden_size=96,
    num_attention_heads=4,
    num_query_groups=2,
    kv_channels=32,
    sliding_window=WINDOW,
    make_vocab_size_divisible_by=64,
    export_vocab_size_divisible_by=128,
)
ROWS = published.padded_vocabulary(MODEL, VOCABULARY)


def config(model: Model = MODEL, rows: int = ROWS) -> dict:
    return published.config(
        model, vocabulary=rows, rotary_base=ROTARY_BASE, context=CONTEXT, end_of_text=0, dtype="float32"
    )


def weights(model: Model = MODEL, rows: int = ROWS, seed: int = 0) -> dict[str, torch.Tensor]:
    """Random weights large enough that logits spread and every part of the model matters."""
    generator = torch.Generator().manual_seed(seed)
    state = {}
    for name, shape in published.shapes(model, rows).items():
        noise = torch.randn(shape, generator=generator)
        if len(shape) == 1:
            state[name] = 1 + 0.2 * noise
        else:
            state[name] = (
                noise * (3.0 if "lm_head" in name else 1.0) * (1 if "embed" in name else shape[1] ** -0.5)
            )
    return state


def network(model: Model = MODEL, attention: str = "sdpa", rows: int = ROWS) -> ZgcmForCausalLM:
    built = ZgcmForCausalLM(ZgcmConfig(**config(model, rows))).eval()
    built.load_state_dict(weights(model, rows))
    built.set_attn_implementation(attention)
    return built


def directory(path: Path, model: Model = MODEL, rows: int = ROWS) -> Path:
    """A Hugging Face directory without tokenizer."""
    path.mkdir(parents=True)
    write_safetensors(path, published.shapes(model, rows), iter(weights(model, rows).items()), torch.float32)
    write_json(path / "config.json", config(model, rows))
    return path


def tokens(length: int, seed: int = 1) -> torch.Tensor:
    """(1, length) ids below the vocabulary."""
    return torch.randint(1, VOCABULARY, (1, length), generator=torch.Generator().manual_seed(seed))
