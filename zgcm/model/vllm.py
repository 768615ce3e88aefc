"""ZGCM for vLLM: rollouts and serving. Same arithmetic as hf/modeling_zgcm.py, vLLM's parallel layers.

Shape legend: T tokens of the batch, C hidden channels, H query heads and G key/value heads of this rank,
D channels of a head, R rotated channels of a head, V vocabulary.

Tensor parallelism splits heads; the gate's columns follow the query heads. Pipeline parallelism and
quantization work as in vLLM's own dense models.
"""

from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn
from vllm.compilation.decorators import support_torch_compile
from vllm.config import CacheConfig, VllmConfig
from vllm.distributed import get_pp_group, get_tensor_model_parallel_world_size
from vllm.model_executor.layers.activation import SiluAndMul
from vllm.model_executor.layers.attention import Attention
from vllm.model_executor.layers.layernorm import RMSNorm
from vllm.model_executor.layers.linear import (
    ColumnParallelLinear,
    MergedColumnParallelLinear,
    QKVParallelLinear,
    RowParallelLinear,
)
from vllm.model_executor.layers.logits_processor import LogitsProcessor
from vllm.model_executor.layers.quantization import QuantizationConfig
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead, VocabParallelEmbedding
from vllm.model_executor.models.interfaces import SupportsPP
from vllm.model_executor.models.utils import (
    AutoWeightsLoader,
    PPMissingLayer,
    WeightsMapper,
    extract_layer_index,
    make_empty_intermediate_tensors_factory,
    make_layers,
    maybe_prefix,
)
from vllm.sequence import IntermediateTensors

from zgcm.model.hf.configuration_zgcm import ZgcmConfig


def configuration(vllm_config: VllmConfig) -> ZgcmConfig:
    return cast(ZgcmConfig, vllm_config.model_config.hf_config)


def norm(channels: int, eps: float) -> RMSNorm:
    """RMSNorm whose weight is fp32: vLLM multiplies in the weight's dtype, and the model's is fp32."""
    return RMSNorm(channels, eps=eps, dtype=torch.float32)


def rotary_cos_sin(config: ZgcmConfig, positions_T: Tensor) -> tuple[Tensor, Tensor]:
    """cos, sin (T, 1, R / 2) in fp32, once per step for all layers.

    vLLM's own rotary layer keeps them in the model's dtype, and in bf16 they carry two digits only.
    """
    exponent = torch.arange(0, config.rotary_dim, 2, dtype=torch.float32, device=positions_T.device)
    inverse = 1.0 / config.rope_parameters["rope_theta"] ** (exponent / config.rotary_dim)
    angle_T1r = (positions_T[:, None].float() * inverse)[:, None]
    return angle_T1r.cos(), angle_T1r.sin()


def rotate(x_THD: Tensor, cos_T1r: Tensor, sin_T1r: Tensor) -> Tensor:
    """Rotate the first R channels of each head in fp32 (half-split pairs); the others pass unchanged."""
    half = cos_T1r.shape[-1]
    first, second, passed = x_THD.split((half, half, x_THD.shape[-1] - 2 * half), dim=-1)
    first, second = first.float(), second.float()
    turned = (first * cos_T1r - second * sin_T1r, second * cos_T1r + first * sin_T1r)
    return torch.cat((*(part.to(x_THD.dtype) for part in turned), passed), dim=-1)


class ZgcmAttention(nn.Module):
    def __init__(
        self,
        config: ZgcmConfig,
        cache_config: CacheConfig | None,
        quant_config: QuantizationConfig | None,
        prefix: str,
    ) -> None:
        super().__init__()
        index = extract_layer_index(prefix)
        ranks = get_tensor_model_parallel_world_size()
        self.head_dim = config.head_dim
        self.num_heads = config.num_attention_heads // ranks
        # With more ranks than key/value heads, vLLM replicates the heads.
        self.num_kv_heads = max(1, config.num_key_value_heads // ranks)
        self.sizes = [self.num_heads * self.head_dim] + [self.num_kv_heads * self.head_dim] * 2
        query_channels = config.num_attention_heads * self.head_dim
        self.qkv_proj = QKVParallelLinear(
            config.hidden_size,
            self.head_dim,
            config.num_attention_heads,
            config.num_key_value_heads,
            bias=config.attention_bias,
            quant_config=quant_config,
            prefix=f"{prefix}.qkv_proj",
        )
        self.gated = bool(config.attention_gate_layers[index])
        if self.gated:
            self.g_proj = ColumnParallelLinear(
                config.hidden_size,
                query_channels,
                bias=False,
                quant_config=quant_config,
                prefix=f"{prefix}.g_proj",
            )
        self.o_proj = RowParallelLinear(
            query_channels,
            config.hidden_size,
            bias=config.attention_bias,
            quant_config=quant_config,
            prefix=f"{prefix}.o_proj",
        )
        self.q_norm = norm(self.head_dim, config.rms_norm_eps)
        self.k_norm = norm(self.head_dim, config.rms_norm_eps)
        sliding = config.layer_types[index] == "sliding_attention"
        self.attn = Attention(
            self.num_heads,
            self.head_dim,
            self.head_dim**-0.5,
            num_kv_heads=self.num_kv_heads,
            cache_config=cache_config,
            quant_config=quant_config,
            # Like the configuration, vLLM counts the token itself.
            per_layer_sliding_window=config.sliding_window if sliding else None,
            prefix=f"{prefix}.attn",
        )

    def forward(self, x_TC: Tensor, cos_sin: tuple[Tensor, Tensor]) -> Tensor:
        qkv, _ = self.qkv_proj(x_TC)
        query, key, value = qkv.split(self.sizes, dim=-1)
        query_THD = rotate(self.q_norm(query.view(-1, self.num_heads, self.head_dim)), *cos_sin)
        key_TGD = rotate(self.k_norm(key.view(-1, self.num_kv_heads, self.head_dim)), *cos_sin)
        out = self.attn(query_THD.flatten(1), key_TGD.flatten(1), value)
        if self.gated:
            gate, _ = self.g_proj(x_TC)
            out = out * gate.float().sigmoid().to(out.dtype)
        return self.o_proj(out)[0]


class ZgcmMLP(nn.Module):
    def __init__(self, config: ZgcmConfig, quant_config: QuantizationConfig | None, prefix: str) -> None:
        super().__init__()
        self.gate_up_proj = MergedColumnParallelLinear(
            config.hidden_size,
            [config.intermediate_size] * 2,
            bias=False,
            quant_config=quant_config,
            prefix=f"{prefix}.gate_up_proj",
        )
        self.down_proj = RowParallelLinear(
            config.intermediate_size,
            config.hidden_size,
            bias=False,
            quant_config=quant_config,
            prefix=f"{prefix}.down_proj",
        )
        self.act_fn = SiluAndMul()

    def forward(self, x_TC: Tensor) -> Tensor:
        gate_up, _ = self.gate_up_proj(x_TC)
        return self.down_proj(self.act_fn(gate_up))[0]


class ZgcmDecoderLayer(nn.Module):
    """The published names: post_attention_layernorm is before attention, post_feedforward_layernorm before
    the MLP. vLLM fuses each norm with the residual addition that precedes it."""

    def __init__(self, vllm_config: VllmConfig, prefix: str) -> None:
        super().__init__()
        config = configuration(vllm_config)
        quant_config = vllm_config.quant_config
        self.self_attn = ZgcmAttention(
            config, vllm_config.cache_config, quant_config, prefix=f"{prefix}.self_attn"
        )
        self.mlp = ZgcmMLP(config, quant_config, prefix=f"{prefix}.mlp")
        self.post_attention_layernorm = norm(config.hidden_size, config.rms_norm_eps)
        self.post_feedforward_layernorm = norm(config.hidden_size, config.rms_norm_eps)

    def forward(
        self, x_TC: Tensor, residual_TC: Tensor | None, cos_sin: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        if residual_TC is None:
            residual_TC = x_TC
            x_TC = self.post_attention_layernorm(x_TC)
        else:
            x_TC, residual_TC = self.post_attention_layernorm(x_TC, residual_TC)
        x_TC = self.self_attn(x_TC, cos_sin)
        x_TC, residual_TC = self.post_feedforward_layernorm(x_TC, residual_TC)
        return self.mlp(x_TC), residual_TC


@support_torch_compile
class ZgcmModel(nn.Module):
    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__()
        config = configuration(vllm_config)
        self.config = config
        first, last = get_pp_group().is_first_rank, get_pp_group().is_last_rank
        self.embed_tokens = (
            VocabParallelEmbedding(
                config.vocab_size,
                config.hidden_size,
                quant_config=vllm_config.quant_config,
                prefix=f"{prefix}.embed_tokens",
            )
            if first
            else PPMissingLayer()
        )
        self.start_layer, self.end_layer, self.layers = make_layers(
            config.num_hidden_layers,
            lambda prefix: ZgcmDecoderLayer(vllm_config, prefix),
            prefix=f"{prefix}.layers",
        )
        self.norm = norm(config.hidden_size, config.rms_norm_eps) if last else PPMissingLayer()
        self.make_empty_intermediate_tensors = make_empty_intermediate_tensors_factory(
            ["hidden_states", "residual"], config.hidden_size
        )

    def embed_input_ids(self, input_ids: Tensor) -> Tensor:
        return self.embed_tokens(input_ids)

    def forward(
        self,
        input_ids: Tensor | None,
        positions: Tensor,
        intermediate_tensors: IntermediateTensors | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor | IntermediateTensors:
        residual_TC: Tensor | None = None
        if get_pp_group().is_first_rank:
            x_TC = self.embed_input_ids(cast(Tensor, input_ids)) if inputs_embeds is None else inputs_embeds
        else:
            assert intermediate_tensors is not None
            x_TC, residual_TC = intermediate_tensors["hidden_states"], intermediate_tensors["residual"]
        cos_sin = rotary_cos_sin(self.config, positions)
        for layer in self.layers[self.start_layer : self.end_layer]:
            x_TC, residual_TC = layer(x_TC, residual_TC, cos_sin)
        if not get_pp_group().is_last_rank:
            return IntermediateTensors({"hidden_states": x_TC, "residual": cast(Tensor, residual_TC)})
        return self.norm(x_TC, residual_TC)[0]


class ZgcmForCausalLM(nn.Module, SupportsPP):
    packed_modules_mapping = {
        "qkv_proj": ["q_proj", "k_proj", "v_proj"],
        "gate_up_proj": ["gate_proj", "up_proj"],
    }
    hf_to_vllm_mapper = WeightsMapper(
        orig_to_new_stacked={
            ".q_proj": (".qkv_proj", "q"),
            ".k_proj": (".qkv_proj", "k"),
            ".v_proj": (".qkv_proj", "v"),
            ".gate_proj": (".gate_up_proj", 0),
            ".up_proj": (".gate_up_proj", 1),
        }
    )

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__()
        config = configuration(vllm_config)
        self.config = config
        self.model = ZgcmModel(vllm_config=vllm_config, prefix=maybe_prefix(prefix, "model"))
        self.lm_head: nn.Module = PPMissingLayer()
        if get_pp_group().is_last_rank:
            self.lm_head = ParallelLMHead(
                config.vocab_size,
                config.hidden_size,
                quant_config=vllm_config.quant_config,
                prefix=maybe_prefix(prefix, "lm_head"),
            )
        self.logits_processor = LogitsProcessor(config.vocab_size)
        self.make_empty_intermediate_tensors = self.model.make_empty_intermediate_tensors

    def embed_input_ids(self, input_ids: Tensor) -> Tensor:
        return self.model.embed_input_ids(input_ids)

    def forward(
        self,
        input_ids: Tensor | None,
        positions: Tensor,
        intermediate_tensors: IntermediateTensors | None = None,
        inputs_embeds: Tensor | None = None,
        **_: Any,
    ) -> Tensor | IntermediateTensors:
        return self.model(input_ids, positions, intermediate_tensors, inputs_embeds)

    def compute_logits(self, hidden_states: Tensor) -> Tensor | None:
        return self.logits_processor(self.lm_head, hidden_states)

    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> set[str]:
        """Takes the published tensor names."""
        return AutoWeightsLoader(self).load_weights(weights, mapper=self.hf_to_vllm_mapper)
