"""Configuration of ZGCM: a decoder with gated sliding-window attention and a few global layers.

This file and modeling_zgcm.py travel with the weights; they need only torch and transformers (5 or later).
"""

from typing import Any

from transformers import PreTrainedConfig


class ZgcmConfig(PreTrainedConfig):
    """The published keys; the defaults are the 7B model.

    `sliding_window` counts the token itself. `layer_types` names each layer's attention; when absent, layer i
    (from 0) is full iff (i + 1) mod `window_attn_skip_freq` = 0. `attention_gate_layers` is a list of
    booleans (true: the layer multiplies its attention output by sigmoid(g_proj(x))), or "sliding", "all" or
    "none". The three fields that default to None are filled in by `__post_init__`.
    """

    model_type = "zgcm"
    keys_to_ignore_at_inference = ["past_key_values"]
    base_model_tp_plan = {
        "layers.*.self_attn.q_proj": "colwise",
        "layers.*.self_attn.k_proj": "colwise",
        "layers.*.self_attn.v_proj": "colwise",
        "layers.*.self_attn.g_proj": "colwise",
        "layers.*.self_attn.q_norm": "replicated_with_grad_allreduce",
        "layers.*.self_attn.k_norm": "replicated_with_grad_allreduce",
        "layers.*.self_attn.o_proj": "rowwise",
        "layers.*.mlp.gate_proj": "colwise",
        "layers.*.mlp.up_proj": "colwise",
        "layers.*.mlp.down_proj": "rowwise",
    }
    base_model_pp_plan = {
        "embed_tokens": (["input_ids"], ["inputs_embeds"]),
        "layers": (["hidden_states", "attention_mask"], ["hidden_states"]),
        "norm": (["hidden_states"], ["hidden_states"]),
    }

    vocab_size: int = 155136
    hidden_size: int = 4096
    intermediate_size: int = 11008
    num_hidden_layers: int = 32
    num_attention_heads: int = 32
    num_key_value_heads: int = 8
    head_dim: int = 128
    hidden_act: str = "silu"
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10_000_000.0
    partial_rotary_factor: float = 0.334
    rope_parameters: dict[str, Any] = None  # type: ignore[assignment]
    max_position_embeddings: int = 262144
    sliding_window: int = 128
    window_attn_skip_freq: int = 6
    layer_types: list[str] = None  # type: ignore[assignment]
    attention_gate_layers: list[bool] = None  # type: ignore[assignment]
    attention_bias: bool = False
    attention_dropout: float = 0.0
    initializer_range: float = 0.02
    use_cache: bool = True
    tie_word_embeddings: bool = False
    pad_token_id: int | None = 154820
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = 154820

    def __post_init__(self, **kwargs: Any) -> None:
        layers = range(self.num_hidden_layers)
        if self.layer_types is None:
            self.layer_types = [
                "sliding_attention" if (i + 1) % self.window_attn_skip_freq else "full_attention"
                for i in layers
            ]
        gates: list[bool] | str = self.attention_gate_layers or "sliding"
        if isinstance(gates, str):
            gated = {
                "sliding": [kind == "sliding_attention" for kind in self.layer_types],
                "all": [True for _ in layers],
                "none": [False for _ in layers],
            }
            if gates not in gated:
                raise ValueError(
                    f"attention_gate_layers is {gates!r}; expected a list or one of {list(gated)}"
                )
            gates = gated[gates]
        for name, values in (("layer_types", self.layer_types), ("attention_gate_layers", gates)):
            if len(values) != self.num_hidden_layers:
                raise ValueError(f"{name} has {len(values)} entries for {self.num_hidden_layers} layers")
        self.attention_gate_layers = list(gates)
        if self.rope_parameters is None:
            self.rope_parameters = {
                "rope_type": "default",
                "rope_theta": self.rope_theta,
                "partial_rotary_factor": self.partial_rotary_factor,
            }
        super().__post_init__(**kwargs)

    @property
    def rotary_dim(self) -> int:
        """Channels of a head that rotate: head_dim x partial_rotary_factor, rounded down to even (42)."""
        return int(self.head_dim * self.rope_parameters["partial_rotary_factor"]) // 2 * 2


__all__ = ["ZgcmConfig"]
