"""Arithmetic of the model: FLOPs a token, bytes of a checkpoint. No tensors.

A multiply-accumulate is 2 FLOPs and the backward pass costs twice the forward one, hence the factor 6
(as published). Recomputation is not counted: these are the model's FLOPs, not the hardware's.
"""

from dataclasses import dataclass

from zgcm.config.model import Model
from zgcm.config.plan import is_gated_layer, is_global_layer, parameters
from zgcm.config.stages import Optimizer


@dataclass(frozen=True)
class Flops:
    """Training FLOPs a token (forward and backward)."""

    full: float
    """As the published code counts: full causal attention charged on every layer."""
    windowed: float
    """Windows honoured: a sliding-window layer attends to its window only. What is really computed."""


def flops_per_token(model: Model, vocabulary: int, seq_length: int) -> Flops:
    """FLOPs a token at a sequence length (as published): 53.43 and 42.73 GFLOP for the 7B at 16,384.

    6 x [3 h ffn a layer + attention a layer + h vocabulary], attention = h (Q + K + V) + Q h + Q keys, and
    h Q more where there is a gate. `keys` is the mean number of visible keys times 2 for the two products:
    causal attention sees half the sequence; a window of w tokens sees w, as long as the sequence is longer.
    """
    h, head = model.hidden_size, model.kv_channels
    q, kv = head * model.num_attention_heads, head * model.num_query_groups
    projections = h * (q + 2 * kv) + q * h
    layers = range(1, model.num_layers + 1)
    base = model.num_layers * (3 * h * model.ffn_hidden_size + projections) + h * vocabulary
    base += sum(is_gated_layer(model, layer) for layer in layers) * h * q
    window_keys = min(2 * model.sliding_window, seq_length)
    full_keys = model.num_layers * seq_length
    keys = sum(seq_length if is_global_layer(model, layer) else window_keys for layer in layers)
    return Flops(6.0 * (base + q * full_keys), 6.0 * (base + q * keys))


def checkpoint_bytes(model: Model, vocabulary: int, optimizer: Optimizer) -> int:
    """Size of a checkpoint: 2 bytes a weight (bf16), a 4-byte master copy of it, and its 4-byte moments.

    Muon keeps one moment of a layer's matrix, Adam two of everything else. A tiny checkpoint on disk is 2.5 %
    larger than this (metadata).
    """
    counted = parameters(model, vocabulary)
    moments = 1 if optimizer.kind == "muon" else 2
    return (2 + 4 + 4 * moments) * counted.matrices + (2 + 4 + 8) * counted.others
