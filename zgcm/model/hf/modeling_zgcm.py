"""ZGCM in PyTorch for transformers: inference, generation, and training on padded or packed rows.

Shape legend: B rows, L query tokens, S key tokens, C hidden channels, H query heads, G key/value heads,
D channels of a head, R rotated channels of a head, V vocabulary. `x_BLC` has shape (B, L, C).

A row may hold several sequences ("packed"). Either let `position_ids` restart at 0 at each sequence, with
`attention_mask=None` and no cache; or pass `attention_mask=packed_attention_masks(position_ids, window)`, a
dict from layer type to a boolean mask (B, 1, L, S) in which true means visible. Both give each sequence what
it gets alone. Tail padding is one more sequence.

`forward(..., compute_logits=False)` stops before the vocabulary projection and returns the final hidden
states, so that log-probabilities can be taken in chunks: a row of 8,192 tokens has 5 GB of fp32 logits.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers.activations import ACT2FN
from transformers.cache_utils import Cache, DynamicCache
from transformers.generation import GenerationMixin
from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, PreTrainedModel
from transformers.utils import can_return_tuple

from .configuration_zgcm import ZgcmConfig

Masks = dict[str, Any]  # values: Tensor, None, or the block mask of flex attention


def packed_attention_masks(position_ids_BL: Tensor, sliding_window: int) -> Masks:
    """Boolean masks (B, 1, L, L) of packed rows for both layer types; true means visible.

    A new sequence starts wherever a position is not its left neighbour's plus one. `sliding_window` counts
    the token itself.
    """
    starts_BL = torch.ones_like(position_ids_BL, dtype=torch.bool)
    starts_BL[:, 1:] = position_ids_BL[:, 1:] != position_ids_BL[:, :-1] + 1
    sequence_BL = starts_BL.cumsum(-1)
    index_L = torch.arange(position_ids_BL.shape[1], device=position_ids_BL.device)
    distance_LL = index_L[:, None] - index_L[None, :]
    same_B1LL = (sequence_BL[:, :, None] == sequence_BL[:, None, :])[:, None]
    return {
        "full_attention": same_B1LL & (distance_LL >= 0),
        "sliding_attention": same_B1LL & (distance_LL >= 0) & (distance_LL < sliding_window),
    }


def is_packed(position_ids_BL: Tensor) -> bool:
    """Does any row hold more than one sequence?"""
    return bool((position_ids_BL.diff(dim=-1) != 1).any())


class ZgcmRMSNorm(nn.Module):
    """Normalisation and the multiplication by the weight both in fp32, then the cast back."""

    def __init__(self, channels: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        x_fp32 = x.float()
        scale = torch.rsqrt(x_fp32.square().mean(-1, keepdim=True) + self.eps)
        return (x_fp32 * scale * self.weight.float()).to(x.dtype)


class ZgcmRotaryEmbedding(nn.Module):
    """Cosines and sines of the rotated channels, in fp32.

    transformers builds a model on the meta device and then refills buffers that no checkpoint holds. It finds
    a rotary module by the names `rope_type`, `compute_default_rope_parameters`, `inv_freq` and
    `original_inv_freq`; without them the frequencies stay uninitialised memory, silently.
    """

    inv_freq: Tensor
    original_inv_freq: Tensor

    def __init__(self, config: ZgcmConfig) -> None:
        super().__init__()
        self.config = config
        self.rope_type = "default"
        inv_freq, _ = self.compute_default_rope_parameters(config)
        self.register_buffer("inv_freq", inv_freq, persistent=False)
        self.register_buffer("original_inv_freq", inv_freq.clone(), persistent=False)

    @staticmethod
    def compute_default_rope_parameters(config: ZgcmConfig, *_: Any, **__: Any) -> tuple[Tensor, float]:
        """Inverse frequencies (R / 2) and the attention scale, which is always 1."""
        exponent = torch.arange(0, config.rotary_dim, 2, dtype=torch.float32) / config.rotary_dim
        return 1.0 / config.rope_parameters["rope_theta"] ** exponent, 1.0

    @torch.no_grad()
    def forward(self, position_ids_BL: Tensor) -> tuple[Tensor, Tensor]:
        """cos, sin (B, L, R), the two halves of R alike."""
        angle_BLr = position_ids_BL[..., None].float() * self.inv_freq.float()
        angle_BLR = torch.cat((angle_BLr, angle_BLr), dim=-1)
        return angle_BLR.cos(), angle_BLR.sin()


def rotate(x_BHLD: Tensor, cos_BLR: Tensor, sin_BLR: Tensor) -> Tensor:
    """Rotate the first R channels of each head in fp32 (half-split pairs); the others pass unchanged."""
    rotated, passed = x_BHLD.split((cos_BLR.shape[-1], x_BHLD.shape[-1] - cos_BLR.shape[-1]), dim=-1)
    rotated = rotated.float()
    first, second = rotated.chunk(2, dim=-1)
    turned = rotated * cos_BLR[:, None] + torch.cat((-second, first), dim=-1) * sin_BLR[:, None]
    return torch.cat((turned.to(x_BHLD.dtype), passed), dim=-1)


def eager_attention(
    module: Any,
    query_BHLD: Tensor,
    key_BGSD: Tensor,
    value_BGSD: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """Plain matrix products, softmax in fp32. The mask is boolean (true: visible) or additive."""
    key_BHSD, value_BHSD = (
        x.repeat_interleave(module.num_key_value_groups, dim=1) for x in (key_BGSD, value_BGSD)
    )
    score_BHLS = query_BHLD @ key_BHSD.transpose(2, 3) * scaling
    if attention_mask is not None:
        if attention_mask.dtype == torch.bool:
            score_BHLS = score_BHLS.masked_fill(~attention_mask, torch.finfo(score_BHLS.dtype).min)
        else:
            score_BHLS = score_BHLS + attention_mask
    weight_BHLS = score_BHLS.softmax(dim=-1, dtype=torch.float32).to(query_BHLD.dtype)
    weight_BHLS = nn.functional.dropout(weight_BHLS, p=dropout, training=module.training)
    return (weight_BHLS @ value_BHSD).transpose(1, 2).contiguous(), weight_BHLS


class ZgcmAttention(nn.Module):
    """Grouped-query attention with QK-norm and partial rotation; on gated layers, an output gate."""

    def __init__(self, config: ZgcmConfig, layer_idx: int) -> None:
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.head_dim
        self.num_key_value_groups = config.num_attention_heads // config.num_key_value_heads
        self.scaling = self.head_dim**-0.5
        self.attention_dropout = config.attention_dropout
        self.is_causal = True
        sliding = config.layer_types[layer_idx] == "sliding_attention"
        self.sliding_window = config.sliding_window if sliding else None
        hidden, bias = config.hidden_size, config.attention_bias
        query_channels = config.num_attention_heads * self.head_dim
        key_channels = config.num_key_value_heads * self.head_dim
        self.q_proj = nn.Linear(hidden, query_channels, bias=bias)
        self.k_proj = nn.Linear(hidden, key_channels, bias=bias)
        self.v_proj = nn.Linear(hidden, key_channels, bias=bias)
        self.o_proj = nn.Linear(query_channels, hidden, bias=bias)
        self.q_norm = ZgcmRMSNorm(self.head_dim, config.rms_norm_eps)
        self.k_norm = ZgcmRMSNorm(self.head_dim, config.rms_norm_eps)
        self.gated = bool(config.attention_gate_layers[layer_idx])
        if self.gated:
            self.g_proj = nn.Linear(hidden, query_channels, bias=False)

    def forward(
        self,
        x_BLC: Tensor,
        position_embeddings: tuple[Tensor, Tensor],
        attention_mask: Tensor | None,
        past_key_values: Cache | None,
        **kwargs: Any,
    ) -> Tensor:
        batch, length, _ = x_BLC.shape
        heads = (batch, length, -1, self.head_dim)
        query_BHLD = self.q_norm(self.q_proj(x_BLC).view(heads)).transpose(1, 2)
        key_BGSD = self.k_norm(self.k_proj(x_BLC).view(heads)).transpose(1, 2)
        value_BGSD = self.v_proj(x_BLC).view(heads).transpose(1, 2)
        query_BHLD = rotate(query_BHLD, *position_embeddings)
        key_BGSD = rotate(key_BGSD, *position_embeddings)
        if past_key_values is not None:
            key_BGSD, value_BGSD = past_key_values.update(key_BGSD, value_BGSD, self.layer_idx)
        attend: Callable = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention
        )
        out, _ = attend(
            self,
            query_BHLD,
            key_BGSD,
            value_BGSD,
            attention_mask,
            dropout=self.attention_dropout if self.training else 0.0,
            scaling=self.scaling,
            sliding_window=self.sliding_window,
            **kwargs,
        )
        out = out.reshape(batch, length, -1)
        if self.gated:
            out = out * self.g_proj(x_BLC).float().sigmoid().to(out.dtype)
        return self.o_proj(out)


class ZgcmMLP(nn.Module):
    """SwiGLU."""

    def __init__(self, config: ZgcmConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)
        self.act_fn = ACT2FN[config.hidden_act]

    def forward(self, x_BLC: Tensor) -> Tensor:
        return self.down_proj(self.act_fn(self.gate_proj(x_BLC)) * self.up_proj(x_BLC))


class ZgcmDecoderLayer(GradientCheckpointingLayer):
    """Pre-norm. The published names mislead: `post_attention_layernorm` is the norm BEFORE attention and
    `post_feedforward_layernorm` the norm BEFORE the MLP."""

    def __init__(self, config: ZgcmConfig, layer_idx: int) -> None:
        super().__init__()
        self.self_attn = ZgcmAttention(config, layer_idx)
        self.mlp = ZgcmMLP(config)
        self.post_attention_layernorm = ZgcmRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_feedforward_layernorm = ZgcmRMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, hidden_states: Tensor, **kwargs: Any) -> Tensor:
        x_BLC = hidden_states + self.self_attn(self.post_attention_layernorm(hidden_states), **kwargs)
        return x_BLC + self.mlp(self.post_feedforward_layernorm(x_BLC))


class ZgcmPreTrainedModel(PreTrainedModel):
    config: ZgcmConfig
    config_class = ZgcmConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["ZgcmDecoderLayer"]
    _skip_keys_device_placement = ["past_key_values"]
    _supports_flash_attn = True
    _supports_sdpa = True
    _supports_flex_attn = True
    _supports_attention_backend = True
    _can_compile_fullgraph = True


class ZgcmModel(ZgcmPreTrainedModel):
    """Token ids to final hidden states (after the last norm)."""

    def __init__(self, config: ZgcmConfig) -> None:
        super().__init__(config)
        # No padding_idx although a pad id exists: it is the end-of-text id, whose row is trained.
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(ZgcmDecoderLayer(config, i) for i in range(config.num_hidden_layers))
        self.norm = ZgcmRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.rotary_emb = ZgcmRotaryEmbedding(config)
        self.gradient_checkpointing = False
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | Masks | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        use_cache: bool | None = None,
        output_hidden_states: bool = False,
        **kwargs: Any,
    ) -> BaseModelOutputWithPast:
        """`attention_mask`: None, a padding mask (B, S), a 4-D mask, or a dict from layer type to 4-D mask.

        Without `use_cache` or `past_key_values` no cache is made (`generate` asks for one).
        """
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)
        if use_cache and past_key_values is None:
            past_key_values = DynamicCache(config=self.config)
        if position_ids is None:
            seen = past_key_values.get_seq_length() if past_key_values is not None else 0
            position_ids = (torch.arange(inputs_embeds.shape[1], device=inputs_embeds.device) + seen)[None]
        elif past_key_values is not None and attention_mask is None and is_packed(position_ids):
            # transformers looks for packed rows only where there is no cache; with one they would leak.
            raise ValueError("packed rows (position_ids that restart) need use_cache=False")
        masks = attention_mask if isinstance(attention_mask, dict) else None
        if masks is None:
            arguments: dict[str, Any] = {
                "config": self.config,
                "inputs_embeds": inputs_embeds,
                "attention_mask": attention_mask,
                "past_key_values": past_key_values,
                "position_ids": position_ids,
            }
            masks = {
                "full_attention": create_causal_mask(**arguments),
                "sliding_attention": create_sliding_window_causal_mask(**arguments),
            }
        x_BLC = inputs_embeds
        position_embeddings = self.rotary_emb(position_ids)
        states: list[Any] = [x_BLC]
        for kind, layer in zip(self.config.layer_types, self.layers, strict=True):
            x_BLC = layer(
                x_BLC,
                attention_mask=masks[kind],
                position_embeddings=position_embeddings,
                position_ids=position_ids,
                past_key_values=past_key_values,
                **kwargs,
            )
            if output_hidden_states:
                states.append(x_BLC)
        x_BLC = self.norm(x_BLC)
        return BaseModelOutputWithPast(
            last_hidden_state=x_BLC,
            past_key_values=past_key_values,
            hidden_states=(*states[:-1], x_BLC) if output_hidden_states else None,
        )


class ZgcmForCausalLM(ZgcmPreTrainedModel, GenerationMixin):
    """The model with its vocabulary projection."""

    _tp_plan = {"lm_head": "colwise_gather_output"}
    _pp_plan: Any = {"lm_head": (["hidden_states"], ["logits"])}

    def __init__(self, config: ZgcmConfig) -> None:
        super().__init__(config)
        self.model = ZgcmModel(config)
        self.vocab_size = config.vocab_size
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | Masks | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        compute_logits: bool = True,
        **kwargs: Any,
    ) -> CausalLMOutputWithPast:
        """Logits of the last `logits_to_keep` positions (0: all), or with `compute_logits=False` none.

        Then `hidden_states` is a tuple of one: the final hidden states (B, L, C) that `lm_head` takes.
        """
        out = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        x_BLC = out.last_hidden_state
        if not compute_logits:
            return CausalLMOutputWithPast(past_key_values=out.past_key_values, hidden_states=(x_BLC,))
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits_BLV = self.lm_head(x_BLC[:, kept])
        loss = None
        if labels is not None:
            loss = self.loss_function(
                logits=logits_BLV, labels=labels, vocab_size=self.config.vocab_size, **kwargs
            )
        return CausalLMOutputWithPast(
            loss=loss,
            logits=logits_BLV,
            past_key_values=out.past_key_values,
            hidden_states=out.hidden_states,
        )


__all__ = ["ZgcmForCausalLM", "ZgcmModel", "ZgcmPreTrainedModel", "packed_attention_masks"]
