"""The model's arithmetic against the published 7B's numbers and torch's own count."""

from pathlib import Path

import pytest

from zgcm.config.load import load_recipe
from zgcm.config.plan import parameters
from zgcm.flops import checkpoint_bytes, flops_per_token

ROOT = Path(__file__).parents[1]
SEVEN = load_recipe([ROOT / "config/zgcm-7b.yaml"])
TINY = load_recipe([ROOT / "config/tiny.yaml"])
VOCABULARY = SEVEN.tokenizer.vocab_size


@pytest.mark.parametrize(
    ("seq_length", "full", "windowed", "ratio"),
    [(16_384, 53.43, 42.73, 1.25), (65_536, 92.09, 48.77, 1.89), (262_144, 246.71, 72.93, 3.38)],
)
def test_flops_per_token_of_the_published_stages(
    seq_length: int, full: float, windowed: float, ratio: float
) -> None:
    flops = flops_per_token(SEVEN.model, VOCABULARY, seq_length)
    assert flops.full / 1e9 == pytest.approx(full, abs=0.005)
    assert flops.windowed / 1e9 == pytest.approx(windowed, abs=0.005)
    assert flops.full / flops.windowed == pytest.approx(ratio, abs=0.005)


def test_parameters_of_the_published_model() -> None:
    counted = parameters(SEVEN.model, VOCABULARY)
    assert counted.total == 7_392_735_232
    assert (counted.matrices, counted.others) == (6_123_683_840, 1_269_051_392)


@pytest.mark.slow  # imports transformers
def test_torch_counts_the_same_products() -> None:
    """A forward pass is a third of the total. Eager attention computes the hidden half of the scores, too."""
    from torch import zeros
    from torch.utils.flop_counter import FlopCounterMode

    from zgcm.model import published
    from zgcm.model.hf.configuration_zgcm import ZgcmConfig
    from zgcm.model.hf.modeling_zgcm import ZgcmForCausalLM

    length, model = 256, TINY.model
    facts = published.config(
        model, vocabulary=2048, rotary_base=10_000, context=length, end_of_text=0, dtype="float32"
    )
    net = ZgcmForCausalLM(ZgcmConfig(**facts, attn_implementation="eager"))
    with FlopCounterMode(display=False) as counter:
        net(zeros(1, length, dtype=int))
    hidden_half = 2 * model.num_layers * model.num_attention_heads * model.kv_channels * length**2
    expected = length * flops_per_token(model, 2048, length).full / 3 + hidden_half
    assert counter.get_total_flops() == pytest.approx(expected, rel=1e-3)


def test_windows_longer_than_the_sequence_change_nothing() -> None:
    flops = flops_per_token(SEVEN.model, VOCABULARY, 128)
    assert flops.windowed == flops.full


def test_checkpoint_holds_weights_master_copies_and_moments() -> None:
    muon = SEVEN.train_stages()["pretrain_1t"].optimizer
    assert checkpoint_bytes(SEVEN.model, VOCABULARY, muon) == 10 * 6_123_683_840 + 14 * 1_269_051_392
    adam = muon.model_copy(update={"kind": "adam"})
    assert checkpoint_bytes(SEVEN.model, VOCABULARY, adam) == 14 * 7_392_735_232
