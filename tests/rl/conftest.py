"""A policy that a test can make in seconds: it has learned to answer every question with one of four digits.

GRPO then has a bandit to solve, with the real model, tokenizer, engine and learner.
"""

from pathlib import Path

import pytest
import torch

from zgcm.model.hf.configuration_zgcm import ZgcmConfig
from zgcm.model.hf.modeling_zgcm import ZgcmForCausalLM
from zgcm.rundir.manifest import write_manifest
from zgcm.tokens.chat import render
from zgcm.tokens.tokenizer import default_template

DIGITS = "2457"


def make_tokenizer(directory: Path) -> None:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    specials = ["<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"]
    vocabulary = {token: number for number, token in enumerate([*specials, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(specials)
    tokenizer.add_tokens([AddedToken(text, special=False) for text in ("<think>", "</think>")])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|endoftext|>", pad_token="<|endoftext|>"
    )
    fast.save_pretrained(directory)
    (directory / "chat_template.jinja").write_text(default_template())


def make_policy(directory: Path, *, steps: int = 60) -> None:
    """A Hugging Face directory with its manifest; 2 layers, 0.1M parameters."""
    from tokenizers import Tokenizer

    directory.mkdir(parents=True)
    make_tokenizer(directory)
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    torch.manual_seed(0)
    config = ZgcmConfig(
        vocab_size=320,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        sliding_window=16,
        window_attn_skip_freq=2,
        max_position_embeddings=256,
        pad_token_id=0,
        eos_token_id=0,
        bos_token_id=None,
    )
    model = ZgcmForCausalLM(config)
    prompts = [
        render([{"role": "user", "content": f"q{number}"}], directory, add_generation_prompt=True)
        for number in range(10)
    ]
    texts = [f"{prompt}w</think>\\boxed{{{digit}}}<|endoftext|>" for prompt in prompts for digit in DIGITS]
    ids_BL = torch.tensor([tokenizer.encode(text, add_special_tokens=False).ids for text in texts])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.0)
    for _ in range(steps):
        logits_BLV = model(input_ids=ids_BL, use_cache=False).logits[:, :-1]
        loss = torch.nn.functional.cross_entropy(logits_BLV.flatten(0, 1), ids_BL[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(directory)
    write_manifest(directory)


@pytest.fixture(scope="session")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("policy") / "export"
    make_policy(directory)
    return directory
