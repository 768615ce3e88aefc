"""The architecture and the tokenizer. Names are Megatron's, defaults the published 7B's."""

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from zgcm.config.base import Place, Section, execution


class Model(Section):
    """A dense decoder-only transformer with gated sliding-window attention and a few global layers."""

    num_layers: PositiveInt = 32
    """Transformer layers."""
    hidden_size: PositiveInt = 4096
    """Width of the residual stream."""
    ffn_hidden_size: PositiveInt = 11008
    """Width of the SwiGLU MLP."""
    num_attention_heads: PositiveInt = 32
    """Query heads."""
    num_query_groups: PositiveInt = 8
    """Key/value heads (grouped-query attention)."""
    kv_channels: PositiveInt = 128
    """Channels of one attention head. vLLM on a CPU accepts 32, 64, 80, 96, 112, 128, ..."""
    sliding_window: PositiveInt = 128
    """Visible tokens of a sliding-window layer, counting the token itself (Megatron's `127,0`)."""
    window_attn_skip_freq: PositiveInt = 6
    """Every N-th layer (counted from 1) is global; the others see the window."""
    attention_output_gate: Literal["window", "all", "none"] = "window"
    """Which layers multiply the attention output by sigmoid(gate), element by element."""
    qk_layernorm: bool = True
    """RMSNorm over each query and key head before the rotary embedding."""
    rotary_percent: float = Field(0.334, gt=0, le=1)
    """Share of a head's channels that rotate; int(kv_channels x this) must be even."""
    norm_epsilon: PositiveFloat = 1e-6
    """Of every RMSNorm."""
    init_method_std: PositiveFloat = 0.02
    """Standard deviation of initial weights; residual outputs divide it by sqrt(2 x num_layers)."""
    make_vocab_size_divisible_by: PositiveInt = 128
    """Training pads the vocabulary to a multiple of this times TP."""
    export_vocab_size_divisible_by: PositiveInt = 512
    """The exported vocabulary is padded to a multiple of this (154880 -> 155136 as published).
    Identity of exports and RL, not of training."""

    @property
    def rotary_dim(self) -> int:
        return int(self.kv_channels * self.rotary_percent)

    @model_validator(mode="after")
    def _heads_divide(self) -> "Model":
        if self.num_attention_heads % self.num_query_groups:
            raise ValueError(
                f"num_attention_heads {self.num_attention_heads} is not a multiple of "
                f"num_query_groups {self.num_query_groups}"
            )
        rotated = int(self.kv_channels * self.rotary_percent)
        if rotated < 2 or rotated % 2:  # an odd count: Megatron rounds it up, the published layout down
            raise ValueError(
                f"kv_channels {self.kv_channels} x rotary_percent {self.rotary_percent} rotates {rotated} "
                "channels; an even number of at least 2 is needed"
            )
        return self


class TrainedTokenizer(Section):
    """Byte-level BPE trained on cleaned sources of this recipe."""

    kind: Literal["train"]
    """Trained here."""
    vocab_size: PositiveInt
    """Exact size, special tokens included. A corpus too small to fill it is an error."""
    sources: list[str] = Field(min_length=1)
    """Sources whose cleaned text trains it; listed, so that a new source leaves the tokenizer alone."""
    max_bytes_per_source: PositiveInt = 50_000_000
    """Train on at most this much text of each source, in shard order."""
    individual_digits: bool = True
    """Split numbers into single digits before merging."""


class ImportedTokenizer(Section):
    """A tokenizer directory as published (tokenizer.json, tokenizer_config.json, chat_template.jinja)."""

    kind: Literal["import"]
    """Brought along."""
    path: Place = execution()
    """The directory. Its content is identity: its digest is part of everything made with it."""
    vocab_size: PositiveInt
    """Vocabulary the model is built for (GLM-5.1: 154880), checked against the directory at run time."""
    sha256: str | None = None
    """Digest of tokenizer.json; when given, another file is refused."""


Tokenizer = Annotated[TrainedTokenizer | ImportedTokenizer, Field(discriminator="kind")]
