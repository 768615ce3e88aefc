"""Megatron option -> the published value it carries, or the reason why nothing published stands behind it.

Published values are variables of tests/config/published.json: of the stage's own environment file, else of
the flags that its launcher always passes (`launcher` in pretraining and mid-training, `sft_runner`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

GROUPS = {
    "pretrain_1t": ("pretrain_s1", "launcher"),
    "pretrain_3p2t": ("pretrain_s2", "launcher"),
    "midtrain_16k": ("midtrain_16k", "launcher"),
    "midtrain_64k": ("midtrain_64k", "launcher"),
    "midtrain_256k": ("midtrain_256k", "launcher"),
    "sft": ("sft", "sft_runner"),
}
"""Our stage -> its groups of published variables."""


@dataclass(frozen=True)
class Value:
    """The option's value is the first of these variables that the stage has."""

    variables: tuple[str, ...]
    convert: Callable[[Any], Any] = lambda value: value


@dataclass(frozen=True)
class Switch:
    """The option is there if and only if the variable says so."""

    variables: tuple[str, ...]
    on: Callable[[Any], bool] = lambda value: bool(int(value))


@dataclass(frozen=True)
class Derived:
    """The published launcher computes it; the number under `derived` in published.json."""

    key: str


@dataclass(frozen=True)
class Ours:
    reason: str


Trace = Value | Switch | Derived | Ours


def value(*variables: str, convert: Callable[[Any], Any] = lambda found: found) -> Value:
    return Value(variables, convert)


def switch(*variables: str, on: Callable[[Any], bool] = lambda found: bool(int(found))) -> Switch:
    return Switch(variables, on)


RUN_DIRECTORY = Ours("a path of the run directory; published paths are those of its machines")

TRACES: dict[str, Trace] = {
    "--num-layers": value("NUM_LAYERS"),
    "--hidden-size": value("HIDDEN_SIZE"),
    "--ffn-hidden-size": value("FFN_HIDDEN_SIZE"),
    "--num-attention-heads": value("NUM_ATTENTION_HEADS"),
    "--num-query-groups": value("NUM_QUERY_GROUPS"),
    "--group-query-attention": switch("group_query_attention", "NUM_QUERY_GROUPS"),
    "--kv-channels": value("KV_CHANNELS"),
    "--position-embedding-type": value("POSITION_EMBEDDING_TYPE", "position_embedding_type"),
    "--rotary-percent": value("ROTARY_PERCENT"),
    "--rotary-base": value("ROTARY_BASE"),
    "--no-rope-fusion": switch("NO_ROPE_FUSION", "rope_fusion", on=lambda found: found in (1, False)),
    "--window-size": value("WINDOW_SIZE"),
    "--window-attn-skip-freq": value("WINDOW_ATTN_SKIP_FREQ"),
    "--attention-backend": value("ATTENTION_BACKEND"),
    "--normalization": value("normalization"),
    "--norm-epsilon": value("NORM_EPSILON"),
    "--qk-layernorm": switch("QK_LAYERNORM", "qk_layernorm"),
    "--attention-output-gate": Ours(
        "the published gate is on window layers only, which megatron-core cannot say; our layer spec does"
    ),
    "--attention-dropout": value("attention_dropout"),
    "--hidden-dropout": value("hidden_dropout"),
    "--swiglu": switch("swiglu"),
    "--disable-bias-linear": switch("disable_bias_linear"),
    "--untie-embeddings-and-output-weights": switch("untie_embeddings_and_output_weights"),
    "--init-method-std": Ours(
        "megatron-core's default, which the published launchers leave alone, written out"
    ),
    "--make-vocab-size-divisible-by": value("MAKE_VOCAB_SIZE_DIVISIBLE_BY", "make_vocab_size_divisible_by"),
    "--transformer-impl": value("TRANSFORMER_IMPL", "transformer_impl"),
    "--micro-batch-size": value("MICRO_BATCH_SIZE"),
    "--global-batch-size": value("GLOBAL_BATCH_SIZE"),
    "--seq-length": value("SEQ_LENGTH"),
    "--max-position-embeddings": value("MAX_POSITION_EMBEDDINGS"),
    "--seed": value("SEED"),
    "--optimizer": value("OPTIMIZER"),
    "--lr": value("LR"),
    "--min-lr": value("MIN_LR"),
    "--lr-decay-style": value("LR_DECAY_STYLE"),
    "--weight-decay": value("WEIGHT_DECAY"),
    "--clip-grad": value("CLIP_GRAD"),
    "--adam-beta1": value("ADAM_BETA1"),
    "--adam-beta2": value("ADAM_BETA2"),
    "--adam-eps": Ours("SFT states 1e-8; before it megatron-core's default, the same number, written out"),
    "--calculate-per-token-loss": switch("calculate_per_token_loss"),
    "--muon-momentum": value("MUON_MOMENTUM"),
    "--muon-scale-mode": value("MUON_SCALE_MODE"),
    "--muon-fp32-matmul-prec": value("MUON_FP32_MATMUL_PREC"),
    "--muon-coefficient-type": value("MUON_COEFFIC_TYPE", "MUON_COEFFICIENT_TYPE"),
    "--muon-num-ns-steps": value("MUON_NUM_NS_STEPS"),
    "--muon-tp-mode": value("MUON_TP_MODE"),
    "--muon-extra-scale-factor": value("MUON_EXTRA_SCALE_FACTOR"),
    "--muon-scalar-optimizer": value("MUON_SCALAR_OPTIMIZER"),
    "--train-iters": value("TRAIN_ITERS"),
    "--lr-warmup-iters": value("LR_WARMUP_ITERS"),
    "--train-samples": value("TRAIN_SAMPLES"),
    "--lr-warmup-samples": value("LR_WARMUP_SAMPLES"),
    "--lr-decay-samples": value("LR_DECAY_SAMPLES"),
    "--lr-decay-iters": Derived("train_iters"),
    "--override-opt-param-scheduler": switch("OVERRIDE_OPT_PARAM_SCHEDULER"),
    "--cross-entropy-loss-fusion": switch("ENABLE_CROSS_ENTROPY_LOSS_FUSION"),
    "--cross-entropy-fusion-impl": value(
        "CROSS_ENTROPY_FUSION_IMPL", convert=lambda found: found or "native"
    ),
    "--bf16": switch("bf16"),
    "--fp8-format": value("FP8_FORMAT", "fp8_format"),
    "--fp8-recipe": value("FP8_RECIPE", "fp8_recipe"),
    "--fp8-amax-compute-algo": value("FP8_AMAX_COMPUTE_ALGO", "fp8_amax_compute_algo"),
    "--fp8-amax-history-len": value("FP8_AMAX_HISTORY_LEN", "fp8_amax_history_len"),
    "--fp8-param-gather": switch("FP8_PARAM_GATHER", "ENABLE_FP8_PARAM_GATHER"),
    "--recompute-granularity": value("RECOMPUTE_GRANULARITY"),
    "--recompute-method": value("RECOMPUTE_METHOD"),
    "--recompute-num-layers": value("RECOMPUTE_NUM_LAYERS"),
    "--tensor-model-parallel-size": value("TP_SIZE"),
    "--pipeline-model-parallel-size": value("PP_SIZE"),
    "--context-parallel-size": value("CP_SIZE"),
    "--sequence-parallel": switch("TP_SIZE", on=lambda found: found != 1),
    "--cp-comm-type": value("CP_COMM_TYPE"),
    "--tp-comm-overlap": switch("ENABLE_TP_COMM_OVERLAP"),
    "--use-distributed-optimizer": switch("USE_DISTRIBUTED_OPTIMIZER", "use_distributed_optimizer"),
    "--overlap-grad-reduce": switch("ENABLE_OVERLAP_GRAD_REDUCE", "ENABLE_GRAD_REDUCE_OVERLAP"),
    "--overlap-param-gather": switch("ENABLE_OVERLAP_PARAM_GATHER", "ENABLE_PARAM_GATHER_OVERLAP"),
    "--distributed-timeout-minutes": value("DISTRIBUTED_TIMEOUT_MINUTES", "distributed_timeout_minutes"),
    "--tokenizer-type": Ours(
        "as published before SFT, whose tokenizer class packs conversations; here they are packed beforehand"
    ),
    "--tokenizer-model": Ours(
        "the tokenizer of the results directory, a copy of the one that the recipe names"
    ),
    "--vocab-size": value("VOCAB_SIZE"),
    "--data-cache-path": RUN_DIRECTORY,
    "--split": Ours(
        "published before SFT (DATA_SPLIT); SFT's published split is a file of prefixes, ours one mix"
    ),
    "--dataloader-type": Ours(
        "published for SFT (DATALOADER_TYPE cyclic); before it megatron-core's default, written out"
    ),
    "--no-data-sharding": Ours(
        "the published order of packed sequences hangs on the number of data-parallel ranks, ours does not"
    ),
    "--no-create-attention-mask-in-dataloader": Ours(
        "published before SFT; packed sequences carry their boundaries and need no mask either"
    ),
    "--num-workers": value("DATA_NUM_WORKERS", "NUM_WORKERS"),
    "--num-dataset-builder-threads": value("NUM_DATASET_BUILDER_THREADS", "DATASET_BUILDER_THREADS"),
    "--eval-iters": value("EVAL_ITERS"),
    "--eval-interval": Ours(
        "as published before SFT; SFT evaluates at every save, and here (eval-iters 0) never"
    ),
    "--log-interval": value("LOG_INTERVAL", "log_interval"),
    "--log-throughput": Ours("published before SFT; it changes the log alone"),
    "--tensorboard-dir": RUN_DIRECTORY,
    "--save": RUN_DIRECTORY,
    "--save-interval": Ours("published before SFT (SAVE_INTERVAL); SFT's is derived from its epochs"),
    "--ckpt-format": value("ckpt_format"),
    "--ckpt-fully-parallel-load": switch("ENABLE_CKPT_FULLY_PARALLEL_LOAD"),
    "--exit-signal-handler": Ours("a preempted job saves and goes on later; it changes no result"),
    "--rerun-mode": Ours("published before SFT (RERUN_MODE); a failed step stops the run, which resumes"),
    "--no-gradient-accumulation-fusion": switch("ENABLE_GRAD_ACCUM_FUSION", on=lambda found: not int(found)),
    "--load": RUN_DIRECTORY,
    "--pretrained-checkpoint": RUN_DIRECTORY,
}

BEFORE_SFT: dict[str, Trace] = {
    "--split": value("DATA_SPLIT"),
    "--eval-interval": value("EVAL_INTERVAL"),
    "--save-interval": value("SAVE_INTERVAL"),
    "--rerun-mode": value("RERUN_MODE"),
    "--tokenizer-type": value("tokenizer_type"),
    "--log-throughput": switch("log_throughput"),
    "--no-create-attention-mask-in-dataloader": switch(
        "create_attention_mask_in_dataloader", on=lambda found: not found
    ),
}
DEFAULT_FUSION = Ours("megatron-core's default, which the published launcher leaves alone, written out")

OF_STAGE: dict[str, dict[str, Trace]] = {
    "pretrain_1t": {**BEFORE_SFT, "--cross-entropy-fusion-impl": DEFAULT_FUSION},
    "pretrain_3p2t": {**BEFORE_SFT, "--cross-entropy-fusion-impl": DEFAULT_FUSION},
    "midtrain_16k": BEFORE_SFT,
    "midtrain_64k": BEFORE_SFT,
    "midtrain_256k": BEFORE_SFT,
    "sft": {
        "--train-iters": Derived("train_iters"),
        "--save-interval": Derived("save_interval"),
        "--adam-eps": value("ADAM_EPS"),
        "--dataloader-type": value("DATALOADER_TYPE"),
    },
}
"""What wins over TRACES in one stage."""


def trace(stage: str, option: str) -> Trace:
    return OF_STAGE[stage].get(option) or TRACES[option]
