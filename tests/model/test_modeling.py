"""The modelling code, against an independent forward pass and against itself: packed, padded, cached."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.model import small
from zgcm.model.hf.modeling_zgcm import ZgcmForCausalLM, ZgcmRMSNorm, packed_attention_masks

LENGTHS = (40, 7, 30, 1)


def reference_logits(state: dict[str, Tensor], ids: list[int]) -> Tensor:
    """The published arithmetic in float64, token by token and head by head. Returns (length, vocabulary)."""
    w = {name: tensor.double() for name, tensor in state.items()}

    def rms(x: Tensor, weight: Tensor) -> Tensor:
        return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * weight

    def rotated(x: Tensor, position: int) -> Tensor:
        out = x.clone()
        for pair in range(5):  # 10 of 32 channels
            angle = position * small.ROTARY_BASE ** (-2 * pair / 10)
            a, b = x[pair], x[pair + 5]
            out[pair] = a * math.cos(angle) - b * math.sin(angle)
            out[pair + 5] = b * math.cos(angle) + a * math.sin(angle)
        return out

    x = w["model.embed_tokens.weight"][ids]
    for layer in range(6):
        p = f"model.layers.{layer}."
        h = rms(x, w[p + "post_attention_layernorm.weight"])
        q, k, v = (h @ w[f"{p}self_attn.{n}_proj.weight"].T for n in "qkv")
        mixed = torch.zeros_like(q)
        for head in range(4):
            mine, theirs = slice(head * 32, head * 32 + 32), slice(head // 2 * 32, head // 2 * 32 + 32)
            queries = rms(q[:, mine], w[p + "self_attn.q_norm.weight"])
            keys = rms(k[:, theirs], w[p + "self_attn.k_norm.weight"])
            queries, keys = (
                torch.stack([rotated(x[t], t) for t in range(len(ids))]) for x in (queries, keys)
            )
            for t in range(len(ids)):
                seen = slice(0 if layer == 5 else max(0, t - small.WINDOW + 1), t + 1)
                share = (keys[seen] @ queries[t] / math.sqrt(32)).softmax(0)
                mixed[t, mine] = share @ v[seen, theirs]
        if layer != 5:
            mixed = mixed * torch.sigmoid(h @ w[p + "self_attn.g_proj.weight"].T)
        x = x + mixed @ w[p + "self_attn.o_proj.weight"].T
        h = rms(x, w[p + "post_feedforward_layernorm.weight"])
        gate, up = h @ w[p + "mlp.gate_proj.weight"].T, h @ w[p + "mlp.up_proj.weight"].T
        x = x + (gate * torch.sigmoid(gate) * up) @ w[p + "mlp.down_proj.weight"].T
    return rms(x, w["model.norm.weight"]) @ w["lm_head.weight"].T


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_logits_equal_an_independent_forward_pass(attention: str) -> None:
    ids = small.tokens(40)  # 2.5 windows
    with torch.no_grad():
        ours = small.network(attention=attention)(ids).logits[0]
    expected = reference_logits(small.weights(), ids[0].tolist())
    assert (ours.double() - expected).abs().max() < 1e-4
    assert expected.abs().max() > 1


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("masks", ["from positions", "explicit"])
def test_packed_sequences_give_what_each_gives_alone(attention: str, masks: str) -> None:
    network = small.network(attention=attention)
    ids = small.tokens(sum(LENGTHS))
    positions = torch.cat([torch.arange(n) for n in LENGTHS])[None]
    mask = packed_attention_masks(positions, small.WINDOW) if masks == "explicit" else None
    with torch.no_grad():
        packed = network(ids, position_ids=positions, attention_mask=mask).logits
        alone = torch.cat([network(part).logits for part in ids.split(LENGTHS, dim=1)], dim=1)
    assert (packed - alone).abs().max() < 5e-5


def test_no_gradient_flows_between_packed_sequences() -> None:
    network = small.network().train()
    ids = small.tokens(sum(LENGTHS))
    positions = torch.cat([torch.arange(n) for n in LENGTHS])[None]
    embeddings = network.model.embed_tokens(ids).detach().requires_grad_()
    logits = network(inputs_embeds=embeddings, position_ids=positions).logits
    logits[0, LENGTHS[0] : LENGTHS[0] + LENGTHS[1]].square().sum().backward()
    per_token = embeddings.grad[0].abs().amax(-1)
    assert per_token[: LENGTHS[0]].max() == 0
    assert per_token[LENGTHS[0] : LENGTHS[0] + LENGTHS[1]].min() > 0
    assert per_token[LENGTHS[0] + LENGTHS[1] :].max() == 0


def test_packed_rows_with_a_cache_are_refused() -> None:
    positions = torch.cat([torch.arange(n) for n in LENGTHS])[None]
    with pytest.raises(ValueError, match="use_cache=False"):
        small.network()(small.tokens(sum(LENGTHS)), position_ids=positions, use_cache=True)


def test_padding_on_the_left_changes_nothing() -> None:
    network = small.network()
    ids = small.tokens(30)
    padded = torch.cat((torch.zeros(1, 9, dtype=torch.long), ids), dim=1)
    visible = torch.cat((torch.zeros(1, 9), torch.ones(1, 30)), dim=1)
    positions = (visible.cumsum(-1) - 1).clamp(min=0).long()
    with torch.no_grad():
        left = network(padded, attention_mask=visible, position_ids=positions).logits[:, 9:]
        assert (left - network(ids).logits).abs().max() < 5e-5


def test_cached_generation_beyond_the_window_equals_full_passes() -> None:
    network = small.network()
    ids = small.tokens(20)
    made = network.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=40, do_sample=False, eos_token_id=None
    )
    with torch.no_grad():
        assert torch.equal(network(made).logits.argmax(-1)[0, 19:-1], made[0, 20:])


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_window_layer_sees_the_token_and_the_window_minus_one_before(attention: str) -> None:
    one_layer = small.MODEL.model_copy(update={"num_layers": 1})
    network = small.network(one_layer, attention)
    ids = small.tokens(60)
    other = ids.clone()
    other[0, 20] = ids[0, 20] % 200 + 1
    with torch.no_grad():
        changed = (network(ids).logits - network(other).logits).abs().amax(-1)[0].nonzero().flatten().tolist()
    assert changed == list(range(20, 20 + small.WINDOW))


def test_the_norm_multiplies_by_its_weight_before_it_rounds() -> None:
    norm = ZgcmRMSNorm(64, 1e-6).to(torch.bfloat16)
    torch.manual_seed(0)
    norm.weight.data = (1 + 0.3 * torch.randn(64)).to(torch.bfloat16)
    x = torch.randn(100, 64).to(torch.bfloat16)
    exact = x.double() / (x.double().square().mean(-1, keepdim=True) + 1e-6).sqrt()
    assert torch.equal(norm(x), (exact * norm.weight.double()).to(torch.bfloat16))
    assert not torch.equal(norm(x), exact.to(torch.bfloat16) * norm.weight)  # the other order differs


def test_hidden_states_without_logits() -> None:
    network = small.network()
    ids = small.tokens(20)
    with torch.no_grad():
        out = network(ids, compute_logits=False)
        assert out.logits is None
        assert torch.equal(network.lm_head(out.hidden_states[0]), network(ids).logits)


def test_loading_restores_the_rotary_frequencies(tmp_path: Path) -> None:
    loaded = ZgcmForCausalLM.from_pretrained(small.directory(tmp_path / "hf"))
    expected = 1 / 10_000 ** (torch.arange(0, 10, 2) / 10)
    assert torch.equal(loaded.model.rotary_emb.inv_freq, expected)
