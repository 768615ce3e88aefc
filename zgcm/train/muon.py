"""Muon with the right query-key-value split in every layer.

Muon orthogonalises the query, gate, key and value blocks of a fused projection separately. megatron-core
0.19.2 derives ONE split from the model's configuration; where layers differ (a gate on window layers only)
it then splits gated layers wrongly, or, where the rows do not divide, silently not at all. The split
belongs to the layer, so it is read from the layer.
"""

from dataclasses import replace
from typing import Any

import torch
from megatron.core.optimizer import emerging_optimizers
from megatron.core.transformer.attention import SelfAttention

from zgcm.errors import ZgcmError

_upstream_kwargs = emerging_optimizers._muon_config_to_kwargs


def install() -> None:
    """Register Muon with per-layer splits in megatron-core's optimizer table. Call before building it."""
    entry = emerging_optimizers._EMERGING_OPTIMIZERS["muon"]
    emerging_optimizers._EMERGING_OPTIMIZERS["muon"] = replace(entry, config_to_kwargs=_config_to_kwargs)


def _config_to_kwargs(config: Any, model_chunks: list[torch.nn.Module], pg_collection: Any) -> dict[str, Any]:
    """Upstream asks for Muon's arguments after it tagged the weights and before it copies the tags."""
    for chunk in model_chunks:
        tag_splits(chunk)
    return _upstream_kwargs(config, model_chunks, pg_collection)


def tag_splits(model: torch.nn.Module) -> None:
    """Tell Muon the blocks of every fused projection, in rows of one query group.

    Raises ZgcmError when a rank does not hold whole groups: Muon could not tell the blocks apart.
    """
    for name, module in model.named_modules():
        if not isinstance(module, SelfAttention):
            continue
        weight, split = module.linear_qkv.weight, split_shapes(module.config)
        if weight.shape[0] % sum(split):
            raise ZgcmError(
                "A rank holds a part of a query group, which Muon cannot split into query, key and value",
                where=f"{name}.linear_qkv.weight",
                found=f"{weight.shape[0]} rows",
                expected=f"a multiple of {sum(split)} rows {split}",
                hint="use a tensor-parallel size of at most the number of query groups",
            )
        weight.is_qkv, weight.qkv_split_shapes = True, split


def split_shapes(layer_config: Any) -> list[int]:
    """Rows of the blocks of one query group of a layer, from the layer's own configuration."""
    heads = layer_config.num_attention_heads // layer_config.num_query_groups
    query, channels = heads * layer_config.kv_channels, layer_config.kv_channels
    gate = [query] if layer_config.attention_output_gate else []
    return [query, *gate, channels, channels]
