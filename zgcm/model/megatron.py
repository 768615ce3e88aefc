"""Megatron layer specs of ZGCM: gated attention on sliding-window layers only, the same on CPU and GPU.

`block_spec` is what both `zgcm train` and the logits tests give to megatron-core. With
`transformer_impl="transformer_engine"` the layers are Transformer Engine's; with `local` they are
megatron-core's own, and three modules that megatron-core lacks are ours: RMSNorm that knows sequence
parallelism, and a core attention that handles sliding windows, packed sequences and context parallelism.

Axes: S positions on this rank, T positions of the whole sequence, B micro-batch, H query heads,
G key/value heads (query groups), D channels of a head, N packed sequences, M longest packed sequence.
"""

import copy
import itertools
from functools import lru_cache
from typing import Any, Literal

import torch
import torch.nn.functional as F
from megatron.core import parallel_state
from megatron.core.models.common.embeddings import rope_utils
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec
from megatron.core.packed_seq_params import PackedSeqParams
from megatron.core.tensor_parallel.mappings import gather_from_sequence_parallel_region
from megatron.core.transformer.attention import SelfAttention
from megatron.core.transformer.module import MegatronModule
from megatron.core.transformer.transformer_block import TransformerBlockSubmodules
from megatron.core.transformer.transformer_config import TransformerConfig
from megatron.core.transformer.utils import is_layer_window_attention
from torch import Tensor

Gate = Literal["window", "all", "none"]


def block_spec(
    config: TransformerConfig, gate: Gate = "window", vp_stage: int | None = None
) -> TransformerBlockSubmodules:
    """Layer specs of this pipeline stage.

    `gate` says which layers multiply the attention output by sigmoid(gate). With "window", query-key-value
    shapes differ between layers, so the checkpoint must name every layer: this sets
    `hetereogenous_dist_checkpoint` (upstream's spelling) on `config`.
    """
    config.hetereogenous_dist_checkpoint = True
    config.attention_output_gate = gate == "all"
    on_gpu = config.transformer_impl == "transformer_engine"
    block = get_gpt_decoder_block_spec(
        config, use_transformer_engine=on_gpu, normalization=config.normalization, vp_stage=vp_stage
    )
    for layer in block.layer_specs:
        attention = layer.submodules.self_attention
        if gate == "window":
            attention.module = WindowGatedSelfAttention
        if on_gpu:
            continue
        attention.submodules.core_attention = SDPACoreAttention
        layer.submodules.input_layernorm = layer.submodules.pre_mlp_layernorm = LocalRMSNorm
        if config.qk_layernorm:
            attention.submodules.q_layernorm = attention.submodules.k_layernorm = LocalRMSNorm
    if not on_gpu:
        block.layer_norm = LocalRMSNorm
    return block


class WindowGatedSelfAttention(SelfAttention):
    """Self-attention that is gated iff its layer is a sliding-window layer.

    Upstream's switch is for the whole model; a layer's own copy of the configuration carries ours.
    """

    def __init__(
        self, config: TransformerConfig, submodules: Any, layer_number: int, *args: Any, **kwargs: Any
    ) -> None:
        config = copy.copy(config)
        config.attention_output_gate = is_window_layer(config, layer_number)
        super().__init__(config, submodules, layer_number, *args, **kwargs)


class LocalRMSNorm(torch.nn.RMSNorm):
    """torch's RMSNorm; its weight is marked so that sequence parallelism sums its gradient over TP ranks."""

    def __init__(self, config: TransformerConfig, hidden_size: int, eps: float = 1e-5, **_: Any) -> None:
        super().__init__(hidden_size, eps=eps, dtype=config.params_dtype)
        self.weight.sequence_parallel = config.sequence_parallel  # type: ignore[attr-defined]


class SDPACoreAttention(MegatronModule):
    """Causal attention by torch's scaled_dot_product_attention.

    Handles sliding windows, packed sequences (THD) and context parallelism (keys and values are gathered;
    positions are dealt to ranks in the zigzag order of `rank_positions`).
    """

    def __init__(
        self,
        config: TransformerConfig,
        layer_number: int,
        attn_mask_type: Any,
        attention_type: str,
        attention_dropout: float | None = None,
        softmax_scale: float | None = None,
        cp_comm_type: str | None = None,
        pg_collection: Any = None,
        **_: Any,
    ) -> None:
        super().__init__(config=config)
        self.window = config.window_size[0] if is_window_layer(config, layer_number) else None
        self.scale = softmax_scale
        self.cp = pg_collection.cp if pg_collection else parallel_state.get_context_parallel_group()

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        attn_mask_type: Any = None,
        attention_bias: Tensor | None = None,
        packed_seq_params: PackedSeqParams | None = None,
    ) -> Tensor:
        """query SBHD, key and value SBGD; packed: without the B axis. Returns S,B,(H*D), packed S,(H*D)."""
        if packed_seq_params is None:
            boundaries = (0, query.size(0) * self.cp.size())
            return self.attend(query, key, value, boundaries).flatten(2)
        boundaries = tuple(packed_seq_params.cu_seqlens_q.tolist())
        if self.cp.size() == 1 and (layout := padded_layout(boundaries)):
            return self.attend_padded(query, key, value, layout).flatten(1)
        query_SBHD, key_SBGD, value_SBGD = (x.unsqueeze(1) for x in (query, key, value))
        return self.attend(query_SBHD, key_SBGD, value_SBGD, boundaries)[:, 0].flatten(1)

    def attend(self, query_SBHD: Tensor, key_SBGD: Tensor, value_SBGD: Tensor, boundaries: Any) -> Tensor:
        """Attention under an explicit mask. Returns SBHD."""
        size, rank = self.cp.size(), self.cp.rank()
        if size > 1:  # forward: all-gather along the sequence; backward: reduce-scatter
            key_SBGD, value_SBGD = (
                gather_from_sequence_parallel_region(x.contiguous(), group=self.cp)
                for x in (key_SBGD, value_SBGD)
            )
        mask = causal_mask(boundaries, self.window, size, rank)
        if mask is not None:
            mask = mask.to(query_SBHD.device)
        return self.sdpa(query_SBHD, key_SBGD, value_SBGD, mask)

    def attend_padded(
        self, query_SHD: Tensor, key_SGD: Tensor, value_SGD: Tensor, layout: tuple[Tensor, Tensor]
    ) -> Tensor:
        """Packed sequences as a padded batch: N x M^2 products where one long mask costs T^2.

        Padding stands at the end of each row, where causal attention never looks at it. Returns SHD.
        """
        source_NM, target_S = layout
        count, longest = source_NM.shape
        mask = causal_mask((0, longest), self.window, 1, 0)
        query, key, value = (x[source_NM].transpose(0, 1) for x in (query_SHD, key_SGD, value_SGD))
        out_MNHD = self.sdpa(query, key, value, mask)
        return out_MNHD.transpose(0, 1).reshape(count * longest, *query_SHD.shape[1:])[target_S]

    def sdpa(self, query_SBHD: Tensor, key_SBGD: Tensor, value_SBGD: Tensor, mask: Tensor | None) -> Tensor:
        query, key, value = (x.permute(1, 2, 0, 3) for x in (query_SBHD, key_SBGD, value_SBGD))
        if query.device.type == "cpu":  # bf16 products take 4 times longer here
            query, key, value = query.float(), key.float(), value.float()
        out_BHSD = F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            is_causal=mask is None,
            scale=self.scale,
            enable_gqa=query_SBHD.size(2) != key_SBGD.size(2),
        )
        return out_BHSD.permute(2, 0, 1, 3).to(value_SBGD.dtype)


def install_packed_rope() -> None:
    """Rotate all packed sequences at once instead of one after another.

    Upstream's loop takes more than half of a step when a sample packs many short conversations, and where
    the frequency table happens to be as long as the sample it lets positions run on across conversations.
    """
    rope_utils._apply_rotary_pos_emb_thd = packed_rope


def packed_rope(
    t_SHD: Tensor, cu_seqlens: Tensor, freqs: Tensor, *, cp_group: Any, mscale: float = 1.0, **kinds: Any
) -> Tensor:
    """Rotary embedding with positions that restart in every packed sequence; freqs [positions, 1, 1, D]."""
    kinds.pop("multi_latent_attention", None)
    positions_S = segment_positions(tuple(cu_seqlens.tolist()), cp_group.size(), cp_group.rank())
    freqs_S = freqs[positions_S.to(freqs.device)]
    return rope_utils._apply_rotary_pos_emb_bshd(t_SHD.unsqueeze(1), freqs_S, mscale=mscale, **kinds).squeeze(
        1
    )


@lru_cache(maxsize=2)
def segment_positions(boundaries: tuple[int, ...], size: int, rank: int) -> Tensor:
    """`rank_positions`, each counted from the start of its own segment."""
    positions_S = rank_positions(boundaries, size, rank)
    edges = torch.tensor(boundaries)
    return positions_S - edges[torch.searchsorted(edges, positions_S, right=True) - 1]


def is_window_layer(config: TransformerConfig, layer_number: int) -> bool:
    """Layers are counted from 1; every `window_attn_skip_freq`-th one is global."""
    return is_layer_window_attention(config.window_size, config.window_attn_skip_freq, layer_number)


def rank_positions(boundaries: tuple[int, ...], size: int, rank: int) -> Tensor:
    """Positions of a packed sequence that a context-parallel rank holds, in the order it holds them.

    Each segment is cut into 2*size equal chunks; rank r holds chunks r and 2*size-1-r, which balances the
    causal triangle. `boundaries` are cumulative lengths; segments must be multiples of 2*size if size > 1.
    """
    if size == 1:
        return torch.arange(boundaries[-1])
    parts = []
    for start, end in itertools.pairwise(boundaries):
        chunk, rest = divmod(end - start, 2 * size)
        if rest:
            raise ValueError(f"a segment of {end - start} tokens is not a multiple of 2 x {size} (CP) tokens")
        for index in (rank, 2 * size - 1 - rank):
            parts.append(torch.arange(start + index * chunk, start + (index + 1) * chunk))
    return torch.cat(parts)


@lru_cache(maxsize=16)
def causal_mask(boundaries: tuple[int, ...], window: int | None, size: int, rank: int) -> Tensor | None:
    """Which keys (all T, in the order the ranks hold them) each of this rank's queries sees: bool [S, T].

    `window` counts visible tokens to the left, not the token itself. None: plain causal attention.
    """
    if size == 1 and len(boundaries) == 2 and (window is None or window >= boundaries[1] - 1):
        return None
    query_S = rank_positions(boundaries, size, rank)
    key_T = torch.cat([rank_positions(boundaries, size, other) for other in range(size)])
    distance_ST = query_S[:, None] - key_T[None, :]
    mask_ST = distance_ST >= 0
    if window is not None:
        mask_ST &= distance_ST <= window
    if len(boundaries) > 2:
        edges = torch.tensor(boundaries)
        segment_S, segment_T = (torch.searchsorted(edges, x, right=True) for x in (query_S, key_T))
        mask_ST &= segment_S[:, None] == segment_T[None, :]
    return mask_ST


@lru_cache(maxsize=2)
def padded_layout(boundaries: tuple[int, ...]) -> tuple[Tensor, Tensor] | None:
    """Index maps between T packed tokens and N rows of M: (source [N, M], target [T]).

    None when padding to the longest sequence would cost more than one mask over everything.
    """
    edges = torch.tensor(boundaries).unique()
    start_N, length_N = edges[:-1], edges.diff()
    count, longest, total = len(length_N), int(length_N.max()), int(edges[-1])
    if count == 1 or count * longest**2 > total**2:
        return None
    offset_M = torch.arange(longest)
    source_NM = torch.minimum(start_N[:, None] + offset_M, torch.tensor(total - 1))
    row_T = torch.repeat_interleave(torch.arange(count), length_N)
    target_T = row_T * longest + torch.arange(total) - start_N[row_T]
    return source_NM, target_T
