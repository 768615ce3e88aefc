"""Variables of pretraining, mid-training and SFT, which the published launchers pass to Megatron."""

from published_entries import (
    ENVIRONMENT,
    MAX_POSITIONS,
    NAME,
    OURS,
    PATHS,
    RENDEZVOUS,
    RERUN,
    ROPE,
    ROPE_FUSION,
    SWANLAB,
    Derived,
    Entry,
    Key,
    NoKey,
    flag,
    keys,
    optional,
    same,
    start_iteration,
    start_samples,
    window,
)

MODEL: dict[str, Entry] = {
    **keys(
        "model",
        {
            "NUM_LAYERS": "num_layers",
            "HIDDEN_SIZE": "hidden_size",
            "FFN_HIDDEN_SIZE": "ffn_hidden_size",
            "NUM_ATTENTION_HEADS": "num_attention_heads",
            "NUM_QUERY_GROUPS": "num_query_groups",
            "KV_CHANNELS": "kv_channels",
            "ROTARY_PERCENT": "rotary_percent",
            "NORM_EPSILON": "norm_epsilon",
            "WINDOW_ATTN_SKIP_FREQ": "window_attn_skip_freq",
        },
    ),
    "VOCAB_SIZE": Key("tokenizer.vocab_size"),
    "WINDOW_SIZE": Key("model.sliding_window", window),
    "ROTARY_BASE": Key(f"{OURS}.rotary_base"),
    "SEQ_LENGTH": Key(f"{OURS}.seq_length"),
    "MAX_POSITION_EMBEDDINGS": MAX_POSITIONS,
}

OPTIMIZER: dict[str, Entry] = keys(
    f"{OURS}.optimizer",
    {
        "OPTIMIZER": "kind",
        "LR": "lr",
        "MIN_LR": "min_lr",
        "LR_DECAY_STYLE": "lr_decay_style",
        "WEIGHT_DECAY": "weight_decay",
        "ADAM_BETA1": "adam_beta1",
        "ADAM_BETA2": "adam_beta2",
        "CLIP_GRAD": "clip_grad",
        "MUON_MOMENTUM": "muon_momentum",
        "MUON_SCALE_MODE": "muon_scale_mode",
        "MUON_FP32_MATMUL_PREC": "muon_fp32_matmul_prec",
        "MUON_NUM_NS_STEPS": "muon_num_ns_steps",
        "MUON_TP_MODE": "muon_tp_mode",
        "MUON_EXTRA_SCALE_FACTOR": "muon_extra_scale_factor",
        "MUON_SCALAR_OPTIMIZER": "muon_scalar_optimizer",
    },
)

LAYOUT: dict[str, Entry] = {
    "TP_SIZE": Key(f"{OURS}.parallel.tensor"),
    "PP_SIZE": Key(f"{OURS}.parallel.pipeline"),
    "CP_SIZE": Key(f"{OURS}.parallel.context"),
    "MICRO_BATCH_SIZE": Key(f"{OURS}.micro_batch_size"),
    "GLOBAL_BATCH_SIZE": Key(f"{OURS}.global_batch_size"),
    "SEED": Key(f"{OURS}.seed"),
    "ATTENTION_BACKEND": Key(f"{OURS}.attention_backend"),
    "EVAL_ITERS": Key(f"{OURS}.eval_iters"),
}

MEGATRON: dict[str, Entry] = {
    **MODEL,
    **OPTIMIZER,
    **LAYOUT,
    **same(
        PATHS,
        *(
            "SHARED_STORAGE_ROOT",
            "MEGATRON_LM_ROOT",
            "MEGATRON_VENV",
            "TRANSFORMER_ENGINE_HOME",
            "TORCHRUN_BIN",
        ),
        *("FLASH_ATTN_V3_EGG", "TRAIN_ROOT", "OUTPUT_ROOT", "SAVE_CHECKPOINT_DIR", "LOAD_CHECKPOINT_DIR"),
        *(
            "TENSORBOARD_DIR",
            "DATA_CACHE_DIR",
            "LOG_DIR",
            "TRAIN_PROGRAM",
            "REAL_DATA_PREFIX",
            "DATA_ARGS_PATH",
        ),
    ),
    "TOKENIZER_PATH": NoKey("a path of the machine; tokenizer.path is the user's to set"),
    **same(RENDEZVOUS, "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"),
    **same(
        ENVIRONMENT,
        *("CUDA_DEVICE_MAX_CONNECTIONS", "PYTORCH_CUDA_ALLOC_CONF", "NCCL_IB_DISABLE", "NCCL_DEBUG"),
        *("NVTE_CUDA_ARCHS", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"),
    ),
    "NUM_NODES": Key(f"{OURS}.resources.nodes"),
    "GPUS_PER_NODE": Key(f"{OURS}.resources.gpus_per_node"),
    "OMP_NUM_THREADS": Key(f"{OURS}.resources.cpus_per_process"),
    "POSITION_EMBEDDING_TYPE": ROPE,
    "QK_LAYERNORM": Key("model.qk_layernorm", flag),
    "ATTENTION_OUTPUT_GATE": Key("model.attention_output_gate", lambda on: "window" if on else "none"),
    "ATTENTION_OUTPUT_GATE_ONLY_SWA": Key(
        "model.attention_output_gate", lambda on: "window" if on else "all"
    ),
    "MUON_COEFFIC_TYPE": Key(f"{OURS}.optimizer.muon_coefficient_type"),
    "TRANSFORMER_IMPL": Key(f"{OURS}.engine"),
    "FP8_FORMAT": Key(f"{OURS}.fp8.format"),
    "FP8_RECIPE": Key(f"{OURS}.fp8.recipe"),
    "FP8_AMAX_COMPUTE_ALGO": Key(f"{OURS}.fp8.amax_compute_algo"),
    "FP8_AMAX_HISTORY_LEN": Key(f"{OURS}.fp8.amax_history_len"),
    "FP8_PARAM_GATHER": Key(f"{OURS}.fp8.param_gather", flag),
    "NO_ROPE_FUSION": ROPE_FUSION,
    "USE_DISTRIBUTED_OPTIMIZER": Key(f"{OURS}.optimizer.distributed", flag),
    "ENABLE_OVERLAP_GRAD_REDUCE": Key(f"{OURS}.optimizer.overlap_grad_reduce", flag),
    "ENABLE_OVERLAP_PARAM_GATHER": Key(f"{OURS}.optimizer.overlap_param_gather", flag),
    "RERUN_MODE": RERUN,
    "EXP_NAME": NAME,
    "CP_COMM_TYPE": Key(f"{OURS}.parallel.context_comm"),
    "OVERRIDE_OPT_PARAM_SCHEDULER": Key(f"{OURS}.schedule.override_opt_param_scheduler", flag),
    "NO_DATA_SHUFFLE": Key(f"{OURS}.data_order", lambda on: "sequential" if on else "shuffled"),
    "DATA_SPLIT": Key(f"{OURS}.data_split"),
    "DATA_NUM_WORKERS": Key(f"{OURS}.dataloader_workers"),
    "NUM_DATASET_BUILDER_THREADS": Key(f"{OURS}.dataset_builder_threads"),
    "SAVE_INTERVAL": Key(f"{OURS}.checkpoints.save_interval"),
    "EVAL_INTERVAL": Key(f"{OURS}.eval_interval"),
    "LOG_INTERVAL": Key(f"{OURS}.log_interval"),
}

PRETRAIN: dict[str, Entry] = {
    **MEGATRON,
    "TRAIN_ITERS": Key(f"{OURS}.schedule.train_iters"),
    "LR_WARMUP_ITERS": Key(f"{OURS}.schedule.lr_warmup_iters"),
    "MEGATRON_DATALOADER_PREFETCH_FACTOR": Key(f"{OURS}.dataloader_prefetch"),
    "ENABLE_CROSS_ENTROPY_LOSS_FUSION": Key(
        f"{OURS}.cross_entropy_fusion", lambda on: "native" if on else "none"
    ),
    "ENABLE_RECOMPUTE": Derived(
        lambda recipe, stage: int(recipe.train_stages()[stage].recompute is not None)
    ),
    "PRETRAINED_CHECKPOINT": NoKey(
        "empty: the stage starts at random, or continues through LOAD_CHECKPOINT_DIR"
    ),
    "REQUIRE_LOAD_CHECKPOINT": Key(f"{OURS}.continues", flag),
    "GLOBAL_SHUFFLE_SEED": Key("mixes.pretrain_3p2t.seed"),
    "RESUME_ITER": Derived(start_iteration),
    "RESUME_CONSUMED_SAMPLES": Derived(start_samples),
    "MEGATRON_DATASET_SAMPLE_OFFSET": Derived(start_samples),
}

MIDTRAIN: dict[str, Entry] = {
    **MEGATRON,
    **same(PATHS, "MIDTRAIN_LONG64K_ROOT", "MIDTRAIN_SHORT16K_ROOT"),
    "TRAIN_SAMPLES": Key(f"{OURS}.schedule.train_samples"),
    "LR_WARMUP_SAMPLES": Key(f"{OURS}.schedule.lr_warmup_samples"),
    "LR_DECAY_SAMPLES": Key(f"{OURS}.schedule.lr_decay_samples"),
    "ENABLE_CROSS_ENTROPY_LOSS_FUSION": Derived(
        lambda recipe, stage: int(recipe.train_stages()[stage].cross_entropy_fusion != "none")
    ),
    "CROSS_ENTROPY_FUSION_IMPL": Key(f"{OURS}.cross_entropy_fusion", lambda value: value or "native"),
    "ENABLE_RECOMPUTE": Derived(
        lambda recipe, stage: int(recipe.train_stages()[stage].recompute is not None)
    ),
    "RECOMPUTE_GRANULARITY": Key(f"{OURS}.recompute.granularity", optional),
    "RECOMPUTE_METHOD": Key(f"{OURS}.recompute.method", optional),
    "RECOMPUTE_NUM_LAYERS": Key(f"{OURS}.recompute.num_layers", lambda value: int(value) if value else None),
    "PRETRAINED_CHECKPOINT": NoKey("a path; the stage before stands under stages.{stage}.init"),
    "REQUIRE_LOAD_CHECKPOINT": Key(f"{OURS}.continues", flag),
}

SFT: dict[str, Entry] = {
    **MODEL,
    **OPTIMIZER,
    **LAYOUT,
    "RUN_NAME": NAME,
    "EXPECTED_TRAIN_TOKENS": Key(f"{OURS}.expected_train_tokens"),
    "EXPECTED_TRAIN_RECORDS": Key(f"{OURS}.expected_train_records"),
    "EPOCHS": Key(f"{OURS}.schedule.epochs"),
    "SAVE_EVERY_EPOCHS": Key(f"{OURS}.checkpoints.save_every_epochs"),
    "MIX_TRAIN_WEIGHT_QCORE": Key("mixes.sft.sources.sft_qcore"),
    "MIX_TRAIN_WEIGHT_THINK": Key("mixes.sft.sources.sft_think"),
    "MIX_TRAIN_WEIGHT_TOOL": Derived(lambda recipe, stage: recipe.mixes["sft"].sources.get("sft_tool", 0.0)),
    **same(
        NoKey("a count of one part of the packed data; dataset.json states ours, the guards check the sum"),
        *("QCORE_TRAIN_RECORDS", "QCORE_TRAIN_TOKENS", "THINK_TRAIN_RECORDS", "THINK_TRAIN_TOKENS"),
        *("TOOL_TRAIN_RECORDS", "TOOL_RAW_RECORDS", "TOOL_TRAIN_TOKENS", "TOOL_LABELED_TOKENS"),
    ),
    "MAKE_VOCAB_SIZE_DIVISIBLE_BY": Key("model.make_vocab_size_divisible_by"),
    "WORKER_NUM": Key(f"{OURS}.resources.nodes"),
    "GPUS_PER_WORKER": Key(f"{OURS}.resources.gpus_per_node"),
    "NPROC_PER_NODE": Key(f"{OURS}.resources.processes_per_node"),
    "VIRTUAL_PIPELINE_LAYERS": NoKey("0, off: there is one pipeline stage"),
    "LR_WARMUP_ITERS": Key(f"{OURS}.schedule.lr_warmup_iters"),
    "ADAM_EPS": Key(f"{OURS}.optimizer.adam_eps"),
    "MUON_COEFFICIENT_TYPE": Key(f"{OURS}.optimizer.muon_coefficient_type"),
    "ATTENTION_MODE": NoKey(
        "FlashAttention 3 or 2 is what the environment brings; attention_backend is flash"
    ),
    "RECOMPUTE_MODE": Key(f"{OURS}.recompute.granularity"),
    "RECOMPUTE_GRANULARITY": Key(f"{OURS}.recompute.granularity"),
    "RECOMPUTE_METHOD": Key(f"{OURS}.recompute.method"),
    "RECOMPUTE_NUM_LAYERS": Key(f"{OURS}.recompute.num_layers"),
    "ENABLE_GRAD_REDUCE_OVERLAP": Key(f"{OURS}.optimizer.overlap_grad_reduce", flag),
    "ENABLE_PARAM_GATHER_OVERLAP": Key(f"{OURS}.optimizer.overlap_param_gather", flag),
    "ENABLE_TP_COMM_OVERLAP": Key(f"{OURS}.parallel.tp_comm_overlap", flag),
    "TP_COMM_OVERLAP_CFG": NoKey("empty: Transformer Engine's own choice"),
    "ENABLE_P2P_OVERLAP": NoKey(
        "without effect: there is one pipeline stage, so nothing goes point to point"
    ),
    "ENABLE_GRAD_ACCUM_FUSION": Key(f"{OURS}.gradient_accumulation_fusion", flag),
    "ENABLE_CKPT_FULLY_PARALLEL_LOAD": Key(f"{OURS}.checkpoints.fully_parallel_load", flag),
    "ENABLE_FP8_PARAM_GATHER": Key(f"{OURS}.fp8.param_gather", flag),
    "DATALOADER_TYPE": Key(f"{OURS}.data_order"),
    "DATASET_BUILDER_THREADS": Key(f"{OURS}.dataset_builder_threads"),
    "NUM_WORKERS": Key(f"{OURS}.dataloader_workers"),
    "ENABLE_SAVE": NoKey("0 only in smoke runs; a stage without a checkpoint has no result"),
    **same(SWANLAB, "ENABLE_SWANLAB", "SWANLAB_PROJECT"),
    "DISTRIBUTED_TIMEOUT_MINUTES": Key(f"{OURS}.timeout_minutes"),
}

SFT_RUNTIME: dict[str, Entry] = {
    **same(
        PATHS,
        *("ENV_ROOT", "PROJECT_ROOT", "SOURCE_CKPT_ROOT", "DATA_ROOT", "TOKENIZER", "PYTHON_BIN"),
        *("SOURCE_CKPT_ITER", "SOURCE_DATA_ARGS", "INDEXED_DONE", "DATASET_METADATA", "QCORE_ROOT"),
        *("THINK_ROOT", "TOOL_ROOT", "PYTHON_SITE_PACKAGES", "FA3_OVERLAY", "FA3_TRANSFORMER_ENGINE_HOME"),
        "TRANSFORMER_ENGINE_HOME",
    ),
    "CKPT_LOAD_ITER": Derived(start_iteration),
    "MASTER_PORT": RENDEZVOUS,
    "OMP_NUM_THREADS": Key(f"{OURS}.resources.cpus_per_process"),
    **same(
        ENVIRONMENT,
        *("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_IB_GID_INDEX", "CUDA_VISIBLE_DEVICES"),
        *("CUDA_DEVICE_MAX_CONNECTIONS", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "NCCL_DEBUG"),
        *("NCCL_IB_DISABLE", "TORCH_NCCL_ENABLE_MONITORING", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"),
        *("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE", "TORCHDYNAMO_SUPPRESS_ERRORS", "NVTE_FRAMEWORK"),
        *("NVTE_CUDA_ARCHS", "NVTE_FLASH_ATTN", "NVTE_FUSED_ATTN", "NVTE_UNFUSED_ATTN"),
    ),
}

ARCHITECTURE = NoKey("fixed by the architecture: the layer specification has no other choice")
PER_TOKEN_LOSS = NoKey("always: losses and gradients are divided by the number of trained tokens")
CHECKPOINT_FORMAT = NoKey("always torch_dist, the format that reshards")

LAUNCHER: dict[str, Entry] = {
    **same(
        ARCHITECTURE,
        *("use_mcore_models", "group_query_attention", "attention_dropout", "hidden_dropout", "swiglu"),
        *("normalization", "disable_bias_linear", "untie_embeddings_and_output_weights"),
    ),
    "make_vocab_size_divisible_by": Key("model.make_vocab_size_divisible_by"),
    "bf16": Key("stages.pretrain_1t.bf16"),
    "calculate_per_token_loss": PER_TOKEN_LOSS,
    "tokenizer_type": NoKey("the trainer reads token ids from .bin/.idx and never tokenizes"),
    "create_attention_mask_in_dataloader": NoKey("never: attention is causal in the kernel"),
    "log_throughput": NoKey("always, in speed.jsonl"),
    "ckpt_format": CHECKPOINT_FORMAT,
    "distributed_timeout_minutes": Key("stages.pretrain_1t.timeout_minutes"),
    "sequence_parallel": NoKey("follows from parallel.tensor: on if and only if it is not 1"),
}

SFT_RUNNER: dict[str, Entry] = {
    **same(
        ARCHITECTURE,
        *("attention_dropout", "hidden_dropout", "normalization", "disable_bias_linear"),
        *("untie_embeddings_and_output_weights", "swiglu"),
    ),
    "position_embedding_type": ROPE,
    "qk_layernorm": Key("model.qk_layernorm"),
    "attention_output_gate": Key("model.attention_output_gate", lambda on: "window" if on else "none"),
    "attention_output_gate_only_swa": Key(
        "model.attention_output_gate", lambda on: "window" if on else "all"
    ),
    "transformer_impl": Key(f"{OURS}.engine"),
    "fp8_format": Key(f"{OURS}.fp8.format"),
    "fp8_recipe": Key(f"{OURS}.fp8.recipe"),
    "fp8_amax_compute_algo": Key(f"{OURS}.fp8.amax_compute_algo"),
    "fp8_amax_history_len": Key(f"{OURS}.fp8.amax_history_len"),
    "rope_fusion": ROPE_FUSION,
    "bf16": Key(f"{OURS}.bf16"),
    "calculate_per_token_loss": PER_TOKEN_LOSS,
    **same(
        NoKey("what `init` without `continues` means: weights only, iteration 0"),
        *("finetune", "load_optim", "load_rng"),
    ),
    "use_distributed_optimizer": Key(f"{OURS}.optimizer.distributed"),
    "sequence_parallel": NoKey("follows from parallel.tensor: on if and only if it is not 1"),
    "mid_level_dataset_surplus": NoKey(
        "of Megatron's blended text data sets; packed data are read as they are"
    ),
    **same(
        NoKey("conversations are tokenized when they are packed, not by the trainer"),
        *("sft", "tokenizer_type", "sft_tokenizer_prompt_format"),
    ),
    "log_interval": Key(f"{OURS}.log_interval"),
    "ckpt_format": CHECKPOINT_FORMAT,
    "async_strategy": NoKey(
        "how the published patch saves synchronously; checkpoints.async_save chooses here"
    ),
}
