"""The published layout: configuration keys, tensor names and shapes, and where each tensor lies in Megatron.

One table serves both directions. A Megatron tensor holds one or more published tensors, interleaved by rows:
`groups` times the block (rows of the first name, rows of the second, ...). Only the fused QKV has more than
one group: per key/value group the rows of Q, gate, K, V (no gate on ungated layers).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from zgcm.config.model import Model
from zgcm.errors import ZgcmError

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Tensor:
    """One Megatron tensor and the published tensors in it."""

    key: str
    """Megatron's name in a torch_dist checkpoint."""
    names: tuple[str, ...]
    rows: tuple[int, ...]
    """Rows of each name in one group."""
    groups: int = 1
    columns: int | None = None
    """None: a vector."""
    vocabulary: bool = False
    """Rows are vocabulary entries, which each side pads in its own way."""

    def megatron_shape(self) -> Shape:
        return self._shape(sum(self.rows))

    def published_shapes(self) -> dict[str, Shape]:
        return {name: self._shape(rows) for name, rows in zip(self.names, self.rows, strict=True)}

    def _shape(self, rows: int) -> Shape:
        return (self.groups * rows,) if self.columns is None else (self.groups * rows, self.columns)


def tensors(model: Model, vocabulary: int) -> Iterator[Tensor]:
    """Every weight of the model in file order, for a vocabulary of that many rows."""
    check_expressible(model)
    hidden = model.hidden_size
    yield Tensor(
        "embedding.word_embeddings.weight",
        ("model.embed_tokens.weight",),
        (vocabulary,),
        columns=hidden,
        vocabulary=True,
    )
    for index, gated in enumerate(gated_layers(model)):
        yield from _layer(model, index, gated)
    yield Tensor("decoder.final_layernorm.weight", ("model.norm.weight",), (hidden,))
    yield Tensor("output_layer.weight", ("lm_head.weight",), (vocabulary,), columns=hidden, vocabulary=True)


def check_expressible(model: Model) -> None:
    """Raises ZgcmError for a model that trains but that the published layout cannot describe."""
    if not model.qk_layernorm:
        raise ZgcmError(
            "The published layout has no model without QK-norm",
            where="model.qk_layernorm",
            found="false",
            expected="true",
        )


def _layer(model: Model, index: int, gated: bool) -> Iterator[Tensor]:
    here, there = f"model.layers.{index}", f"decoder.layers.{index}"
    attention, mlp = f"{there}.self_attention", f"{there}.mlp"
    hidden, ffn, head = model.hidden_size, model.ffn_hidden_size, model.kv_channels
    group = model.num_attention_heads // model.num_query_groups * head
    # Megatron keeps each norm with the linear layer that follows it; the published names are the older ones.
    yield Tensor(
        f"{attention}.linear_qkv.layer_norm_weight", (f"{here}.post_attention_layernorm.weight",), (hidden,)
    )
    parts = [("q", group)] + [("g", group)] * gated + [("k", head), ("v", head)]
    yield Tensor(
        f"{attention}.linear_qkv.weight",
        tuple(f"{here}.self_attn.{part}_proj.weight" for part, _ in parts),
        tuple(rows for _, rows in parts),
        groups=model.num_query_groups,
        columns=hidden,
    )
    yield Tensor(f"{attention}.q_layernorm.weight", (f"{here}.self_attn.q_norm.weight",), (head,))
    yield Tensor(f"{attention}.k_layernorm.weight", (f"{here}.self_attn.k_norm.weight",), (head,))
    yield Tensor(
        f"{attention}.linear_proj.weight",
        (f"{here}.self_attn.o_proj.weight",),
        (hidden,),
        columns=model.num_attention_heads * head,
    )
    yield Tensor(
        f"{mlp}.linear_fc1.layer_norm_weight", (f"{here}.post_feedforward_layernorm.weight",), (hidden,)
    )
    yield Tensor(
        f"{mlp}.linear_fc1.weight",
        (f"{here}.mlp.gate_proj.weight", f"{here}.mlp.up_proj.weight"),
        (ffn, ffn),
        columns=hidden,
    )
    yield Tensor(f"{mlp}.linear_fc2.weight", (f"{here}.mlp.down_proj.weight",), (hidden,), columns=ffn)


def shapes(model: Model, vocabulary: int) -> dict[str, Shape]:
    """Published name -> shape, in file order."""
    items = tensors(model, vocabulary)
    return {name: shape for item in items for name, shape in item.published_shapes().items()}


def parameters(model: Model, vocabulary: int) -> int:
    return sum(prod(shape) for shape in shapes(model, vocabulary).values())


def global_layers(model: Model) -> list[bool]:
    """True for the layers that see everything: every `window_attn_skip_freq`-th, counted from 1."""
    return [(i + 1) % model.window_attn_skip_freq == 0 for i in range(model.num_layers)]


def gated_layers(model: Model) -> list[bool]:
    by_gate = {"all": (True, True), "none": (False, False), "window": (True, False)}
    on_window, on_global = by_gate[model.attention_output_gate]
    return [on_global if is_global else on_window for is_global in global_layers(model)]


def padded_vocabulary(model: Model, vocabulary: int) -> int:
    """Rows of the published embedding: 154880 -> 155136."""
    multiple = model.export_vocab_size_divisible_by
    return -(-vocabulary // multiple) * multiple


def config(
    model: Model, *, vocabulary: int, rotary_base: int, context: int, end_of_text: int, dtype: str
) -> dict[str, Any]:
    """`config.json`. `vocabulary` counts the padded rows, `context` is the longest trained sequence."""
    return {
        "architectures": ["ZgcmForCausalLM"],
        "auto_map": {
            "AutoConfig": "configuration_zgcm.ZgcmConfig",
            "AutoModel": "modeling_zgcm.ZgcmModel",
            "AutoModelForCausalLM": "modeling_zgcm.ZgcmForCausalLM",
        },
        "model_type": "zgcm",
        "dtype": dtype,
        "vocab_size": vocabulary,
        "hidden_size": model.hidden_size,
        "intermediate_size": model.ffn_hidden_size,
        "num_hidden_layers": model.num_layers,
        "num_attention_heads": model.num_attention_heads,
        "num_key_value_heads": model.num_query_groups,
        "head_dim": model.kv_channels,
        "hidden_act": "silu",
        "rms_norm_eps": model.norm_epsilon,
        "rope_theta": float(rotary_base),
        "partial_rotary_factor": model.rotary_percent,
        "max_position_embeddings": context,
        "sliding_window": model.sliding_window,
        "window_attn_skip_freq": model.window_attn_skip_freq,
        "layer_types": [
            "full_attention" if is_global else "sliding_attention" for is_global in global_layers(model)
        ],
        "attention_gate_layers": gated_layers(model),
        "attention_bias": False,
        "attention_dropout": 0.0,
        "initializer_range": model.init_method_std,
        "use_cache": True,
        "tie_word_embeddings": False,
        "pad_token_id": end_of_text,
        "eos_token_id": end_of_text,
        "bos_token_id": None,
    }
