"""Variables of the three RL stages, dotted paths of the published YAML files."""

from published_entries import (
    INTERPOLATED,
    NAME,
    OURS,
    PATHS,
    UNUSED_FEATURE,
    Derived,
    Entry,
    Key,
    NoKey,
    env_default,
    keys,
    same,
)

SAMPLING = (
    *("n_samples", "min_new_tokens", "max_new_tokens", "max_tokens", "greedy", "temperature"),
    *("top_p", "top_k", "ignore_eos", "frequency_penalty"),
)

RL: dict[str, Entry] = {
    **same(NAME, "experiment_name", "trial_name"),
    **same(
        INTERPOLATED,
        *(
            f"{part}.{name}"
            for part in ("rollout", "saver", "recover", "evaluator", "stats_logger", "perf_tracer")
            for name in ("experiment_name", "trial_name", "fileroot")
        ),
        *("tokenizer_path", "rollout.tokenizer_path", "actor.experiment_name", "actor.trial_name"),
        *(
            "actor.temperature",
            "actor.max_new_tokens",
            "actor.reward_norm.group_size",
            "vllm.model",
            "vllm.seed",
        ),
        "vllm.dtype",
    ),
    "seed": Key(f"{OURS}.seed"),
    "total_train_epochs": Key(f"{OURS}.epochs"),
    "total_train_steps": Key(f"{OURS}.steps"),
    "cluster.n_nodes": Key(f"{OURS}.resources.nodes", env_default),
    "cluster.n_gpus_per_node": Key(f"{OURS}.resources.gpus_per_node", env_default),
    **same(
        PATHS, "cluster.fileroot", "cluster.name_resolve.nfs_record_root", "stats_logger.tensorboard.path"
    ),
    "cluster.name_resolve.type": NoKey("Ray finds its actors itself"),
    "scheduler.type": NoKey("Ray, always"),
    "scheduler.startup_timeout": NoKey("Ray's own start; rollout.setup_timeout bounds the engines"),
    "rollout.backend": NoKey("vLLM, always"),
    **same(NoKey("no admin service here"), "rollout.admin_api_key", "rollout.agent.admin_api_key"),
    **keys(
        f"{OURS}.rollout",
        {
            "rollout.max_head_offpolicyness": "max_head_offpolicyness",
            "rollout.setup_timeout": "setup_timeout",
            "rollout.request_timeout": "request_timeout",
            "vllm.enforce_eager": "enforce_eager",
            "vllm.max_model_len": "max_model_len",
            "vllm.gpu_memory_utilization": "gpu_memory_utilization",
            "vllm.disable_sliding_window": "disable_sliding_window",
        },
    ),
    "vllm.no_enable_prefix_caching": Key(f"{OURS}.rollout.prefix_caching", lambda off: not off),
    "vllm.model_impl": NoKey("vLLM's own implementation through our plugin, always"),
    "vllm.skip_tokenizer_init": NoKey("prompts go to the engines as token ids"),
    "rollout.dump_to_file": NoKey("only `zgcm rl STAGE --rollout-only` writes trajectories"),
    **same(
        UNUSED_FEATURE,
        *(
            "enable_offload",
            "rollout.enable_rollout_tracing",
            "rollout.scheduling_spec",
            "ref",
            "critic",
            "teacher",
        ),
        *("rollout.agent.mode", "rollout.agent.export_style", "rollout.agent.turn_discount"),
        *("actor.init_from_scratch", "actor.fsdp.memory_efficient_load", "actor.scheduling_spec"),
        *("train_dataset.scheduling_spec", "valid_dataset.scheduling_spec", "stats_logger.wandb.mode"),
        *("perf_tracer.enabled", "perf_tracer.save_interval", "perf_tracer.session_tracer.enabled"),
    ),
    **{f"gconfig.{name}": Key(f"{OURS}.rollout.sampling.{name}") for name in SAMPLING},
    **{f"eval_gconfig.{name}": Key(f"{OURS}.evaluation.sampling.{name}") for name in SAMPLING},
    **keys(
        f"{OURS}.learner",
        {
            "actor.disable_dropout": "disable_dropout",
            "actor.gradient_checkpointing": "gradient_checkpointing",
            "actor.attn_impl": "attention",
            "actor.dtype": "dtype",
            "actor.mb_spec.max_tokens_per_mb": "max_tokens_per_microbatch",
            "actor.optimizer.type": "optimizer",
            "actor.optimizer.lr": "lr",
            "actor.optimizer.weight_decay": "weight_decay",
            "actor.optimizer.beta1": "beta1",
            "actor.optimizer.beta2": "beta2",
            "actor.optimizer.eps": "eps",
            "actor.optimizer.lr_scheduler_type": "lr_scheduler",
            "actor.optimizer.gradient_clipping": "clip_grad",
            "actor.optimizer.warmup_steps_proportion": "warmup_proportion",
            "actor.eps_clip": "eps_clip",
            "actor.reward_scaling": "reward_scaling",
            "actor.reward_bias": "reward_bias",
            "actor.kl_ctl": "kl_coefficient",
            "actor.ppo_n_minibatches": "minibatches",
            "actor.recompute_logprob": "recompute_logprob",
            "actor.use_decoupled_loss": "decoupled_loss",
            "actor.rejection_sampling.upper": "ratio_mask_upper",
            "actor.adv_norm.mean_level": "advantage_norm",
            "actor.adv_norm.std_level": "advantage_norm",
        },
    ),
    "actor.backend": NoKey("FSDP2, always"),
    "actor.mask_no_eos_with_zero": NoKey("a response that was cut off earns 0, always"),
    "actor.optimizer_dtype": NoKey("fp32 master weights and optimizer state, always"),
    **same(
        NoKey("rewards are normalised in each prompt's group, always"),
        *("actor.reward_norm.mean_level", "actor.reward_norm.std_level"),
    ),
    **same(
        NoKey("only the judge reads decoded text, and it strips special tokens itself, always"),
        *("gconfig.skip_special_tokens", "eval_gconfig.skip_special_tokens"),
    ),
    "actor.path": NoKey("a path; the stage it starts from stands under stages.{stage}.init"),
    "actor.weight_update_mode": Key(f"{OURS}.learner.weight_transfer", {"xccl": "nccl"}.get),
    "actor.mb_spec.packing_algorithm": NoKey("first-fit decreasing, always"),
    **same(
        NoKey("the ratio mask works on tokens, always; its bound is learner.ratio_mask_upper"),
        *(
            "actor.rejection_sampling.level",
            "actor.rejection_sampling.action",
            "actor.rejection_sampling.metric",
        ),
    ),
    "train_dataset.batch_size": Key(f"{OURS}.batch_size"),
    "train_dataset.shuffle": Key(f"{OURS}.shuffle"),
    "train_dataset.drop_last": Key(f"{OURS}.drop_last"),
    "train_dataset.max_length": Key(f"{OURS}.max_prompt_tokens"),
    "valid_dataset.batch_size": Key(f"{OURS}.evaluation.batch_size", env_default),
    "valid_dataset.max_length": Key(f"{OURS}.max_prompt_tokens"),
    **same(PATHS, "train_dataset.path", "valid_dataset.path"),
    **same(
        NoKey("evaluation takes every prompt once, in file order"),
        "valid_dataset.shuffle",
        "valid_dataset.drop_last",
    ),
    **same(
        NoKey("of the published data loader; prompts are read into memory at once"),
        *("train_dataset.pin_memory", "train_dataset.num_workers", "train_dataset.type"),
        *("valid_dataset.pin_memory", "valid_dataset.num_workers", "valid_dataset.type"),
    ),
    "saver.freq_epochs": Key(f"{OURS}.checkpoints.save_every_epochs"),
    "saver.freq_steps": Key(f"{OURS}.checkpoints.save_every_steps"),
    "recover.freq_steps": Key(f"{OURS}.checkpoints.recover_every_steps"),
    "evaluator.freq_steps": Key(f"{OURS}.evaluation.every_steps"),
    "recover.mode": NoKey("always: the same command again resumes"),
    **same(
        NoKey("null: steps (and epochs of the saver) decide"),
        *(
            "saver.freq_secs",
            "recover.freq_secs",
            "evaluator.freq_secs",
            "recover.freq_epochs",
            "evaluator.freq_epochs",
        ),
    ),
    "evaluator.eval_before_train": Derived(
        lambda recipe, stage: 0 in recipe.rl_stages()[stage].evaluation_versions()
    ),
}
