"""The published layout of the 7B model, against what its weights are known to look like."""

import pytest
import torch

from zgcm.config.model import Model
from zgcm.errors import ZgcmError
from zgcm.model import published
from zgcm.model.hf.configuration_zgcm import ZgcmConfig
from zgcm.model.hf.modeling_zgcm import ZgcmForCausalLM

GLOBAL = {5, 11, 17, 23, 29}


def expected_shapes(rows: int) -> dict[str, tuple[int, ...]]:
    """Written out from the published repository, not from our table."""
    names: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (rows, 4096)}
    for i in range(32):
        layer = f"model.layers.{i}"
        names |= {
            f"{layer}.post_attention_layernorm.weight": (4096,),
            f"{layer}.post_feedforward_layernorm.weight": (4096,),
            f"{layer}.self_attn.q_proj.weight": (4096, 4096),
            f"{layer}.self_attn.k_proj.weight": (1024, 4096),
            f"{layer}.self_attn.v_proj.weight": (1024, 4096),
            f"{layer}.self_attn.o_proj.weight": (4096, 4096),
            f"{layer}.self_attn.q_norm.weight": (128,),
            f"{layer}.self_attn.k_norm.weight": (128,),
            f"{layer}.mlp.gate_proj.weight": (11008, 4096),
            f"{layer}.mlp.up_proj.weight": (11008, 4096),
            f"{layer}.mlp.down_proj.weight": (4096, 11008),
        }
        if i not in GLOBAL:
            names[f"{layer}.self_attn.g_proj.weight"] = (4096, 4096)
    return names | {"model.norm.weight": (4096,), "lm_head.weight": (rows, 4096)}


def test_the_7b_model_has_the_382_published_tensors() -> None:
    rows = published.padded_vocabulary(Model(), 154880)
    assert rows == 155136
    ours = published.shapes(Model(), rows)
    assert len(ours) == 382
    assert ours == expected_shapes(rows)


def test_the_modelling_code_builds_exactly_these_tensors() -> None:
    config = published.config(
        Model(),
        vocabulary=154880,
        rotary_base=10_000_000,
        context=262144,
        end_of_text=154820,
        dtype="bfloat16",
    )
    with torch.device("meta"):
        network = ZgcmForCausalLM(ZgcmConfig(**config))
    shapes = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    assert shapes == expected_shapes(154880)
    assert sum(parameter.numel() for parameter in network.parameters()) == 7_392_735_232
    assert published.parameters(Model(), 154880) == 7_392_735_232


def test_configuration_keys_and_values_are_the_published_ones() -> None:
    config = published.config(
        Model(),
        vocabulary=155136,
        rotary_base=10_000_000,
        context=262144,
        end_of_text=154820,
        dtype="bfloat16",
    )
    assert (
        config
        | {
            "architectures": ["ZgcmForCausalLM"],
            "model_type": "zgcm",
            "vocab_size": 155136,
            "hidden_size": 4096,
            "intermediate_size": 11008,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "rope_theta": 10000000.0,
            "partial_rotary_factor": 0.334,
            "max_position_embeddings": 262144,
            "sliding_window": 128,
            "window_attn_skip_freq": 6,
            "layer_types": ["full_attention" if i in GLOBAL else "sliding_attention" for i in range(32)],
            "attention_gate_layers": [i not in GLOBAL for i in range(32)],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "initializer_range": 0.02,
            "tie_word_embeddings": False,
            "pad_token_id": 154820,
            "eos_token_id": 154820,
            "bos_token_id": None,
        }
        == config
    )


def test_a_configuration_without_lists_derives_the_same_layers() -> None:
    config = ZgcmConfig()
    assert [i for i, kind in enumerate(config.layer_types) if kind == "full_attention"] == sorted(GLOBAL)
    assert [i for i, gated in enumerate(config.attention_gate_layers) if not gated] == sorted(GLOBAL)
    assert config.rope_parameters["rope_theta"] == 10_000_000.0
    assert ZgcmConfig(attention_gate_layers="none").attention_gate_layers == [False] * 32
    with pytest.raises(ValueError, match="31 entries for 32 layers"):
        ZgcmConfig(attention_gate_layers=[True] * 31)


@pytest.mark.parametrize(("head_dim", "rotated"), [(128, 42), (32, 10), (64, 20), (96, 32)])
def test_rotated_channels_are_rounded_down_to_even(head_dim: int, rotated: int) -> None:
    assert ZgcmConfig(head_dim=head_dim).rotary_dim == rotated


def test_fused_query_key_value_rows_of_the_fact_sheet() -> None:
    rows = {item.key: item.megatron_shape() for item in published.tensors(Model(), 154880)}
    assert rows["decoder.layers.0.self_attention.linear_qkv.weight"] == (10240, 4096)
    assert rows["decoder.layers.5.self_attention.linear_qkv.weight"] == (6144, 4096)


@pytest.mark.parametrize(("gate", "count"), [("window", 27), ("all", 32), ("none", 0)])
def test_gates_follow_the_recipe(gate: str, count: int) -> None:
    names = published.shapes(Model(attention_output_gate=gate), 154880)
    assert sum("g_proj" in name for name in names) == count


def test_a_model_that_the_layout_cannot_express_is_refused() -> None:
    with pytest.raises(ZgcmError, match="qk_layernorm"):
        published.shapes(Model(qk_layernorm=False), 154880)
    with pytest.raises(ValueError, match="rotates 21 channels"):  # Megatron would rotate 22, the layout 20
        Model(kv_channels=64)
