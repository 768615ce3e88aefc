"""From a recipe's stage to megatron-core's own command line. Needs no data, no GPU, no torch.

The options are those of the published launchers in megatron-core
0.19.2's spelling, grouped as they are. On a CPU (`engine: local`) a few differ; `_engine` names them all.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zgcm.config.recipe import Recipe
from zgcm.config.stages import TrainStage
from zgcm.errors import ZgcmError
from zgcm.io import read_json
from zgcm.layout import Layout
from zgcm.train import trackers

Options = list[str]


@dataclass(frozen=True)
class Plan:
    """How long a stage trains: iterations as megatron-core counts them, and the saves between."""

    iterations: int
    save_interval: int


def plan(recipe: Recipe, layout: Layout, name: str) -> Plan:
    """Iterations of a stage. SFT's follow from its packed data (as published). Raises ZgcmError."""
    stage = train_stage(recipe, name)
    if stage.kind == "sft":
        return packed_plan(stage, name, packed_metadata(stage, layout, name))
    if stage.schedule.train_iters:
        iterations = stage.schedule.train_iters
    else:
        iterations = int(stage.schedule.train_samples or 0) // stage.global_batch_size
    if not iterations:
        raise ZgcmError(
            "The schedule is shorter than one batch",
            where=f"stages.{name}.schedule.train_samples",
            found=str(stage.schedule.train_samples),
            expected=f"at least global_batch_size = {stage.global_batch_size}",
        )
    return Plan(iterations, stage.checkpoints.save_interval or iterations)


def packed_metadata(stage: TrainStage, layout: Layout, name: str) -> dict[str, Any]:
    """Tokens and records of a stage's packed mix; checked against the identity guards. Raises ZgcmError."""
    mix = only_mix(stage, name)
    path = layout.dataset(mix)
    guards = {"train_tokens": stage.expected_train_tokens, "train_records": stage.expected_train_records}
    if not path.exists() and all(guards.values()):
        return guards  # before the data exists, the recipe's own promise
    metadata = read_json(path, made_by=f"zgcm pack-summary {mix}")
    wrong = [key for key, expected in guards.items() if expected is not None and metadata[key] != expected]
    if wrong:
        raise ZgcmError(
            "The packed data is not the data this stage was written for",
            where=f"{path}: {', '.join(wrong)}",
            found=", ".join(str(metadata[key]) for key in wrong),
            expected=", ".join(f"{guards[key]} (stages.{name}.expected_{key})" for key in wrong),
            hint="restore the data, or change the expected values if the new data is meant",
        )
    return metadata


def packed_plan(stage: TrainStage, name: str, metadata: dict[str, Any]) -> Plan:
    """floor(tokens x epochs / (sequence length x batch)); off by at most 0.01 epoch (as published)."""
    batch_tokens = stage.seq_length * stage.global_batch_size
    tokens, epochs = metadata["train_tokens"], int(stage.schedule.epochs or 0)
    iterations, epoch_iterations = tokens * epochs // batch_tokens, tokens // batch_tokens
    effective = iterations * batch_tokens / tokens if tokens else 0.0
    if abs(effective - epochs) > 0.01:
        raise ZgcmError(
            "The packed data is too small for this batch: whole iterations miss the epochs by more than 0.01",
            where=f"stages.{name}",
            found=f"{tokens} tokens = {effective:.4f} epochs in {iterations} iterations of {batch_tokens}",
            expected=f"{epochs} epochs",
            hint=f"use at least {batch_tokens * 100} tokens or a smaller global_batch_size",
        )
    interval = stage.checkpoints.save_interval or epoch_iterations * stage.checkpoints.save_every_epochs
    return Plan(iterations, min(interval, iterations))


def train_stage(recipe: Recipe, name: str) -> TrainStage:
    return recipe.stage_of(TrainStage, name, "megatron-core trains")


def only_mix(stage: TrainStage, name: str) -> str:
    """The one mix of an SFT stage. Raises ZgcmError when there are several."""
    if len(stage.mix) == 1:
        return next(iter(stage.mix))
    raise ZgcmError(
        "Packed conversations come from one mix",
        where=f"stages.{name}.mix",
        found=", ".join(stage.mix),
        expected="one mix",
    )


def megatron_argv(recipe: Recipe, layout: Layout, name: str, run: Path, length: Plan) -> list[Options]:
    """megatron-core's options of a stage, one short list per line of `--print-argv`."""
    stage = train_stage(recipe, name)
    return [
        *_model(recipe, stage),
        *_training(stage, length),
        *_precision(stage),
        *_parallel(stage),
        *_data(recipe, layout, stage, run),
        *_logging(recipe, name, stage, length, run),
        *_engine(stage),
    ]


def load_argv(stage: TrainStage, run: Path, *, resuming: bool = False) -> Options:
    """Where weights come from: this run, the stage before (its optimizer too if `continues`), or nowhere.

    RUN/initial holds a link to the checkpoint of the stage before; once the run has its own, `resuming` is
    true and nothing else is loaded, however often the stage starts again.
    """
    own = ["--load", str(run / "checkpoints")]
    if resuming or stage.init is None:
        return own
    if stage.continues:
        return ["--load", str(run / "initial")]
    return [*own, "--pretrained-checkpoint", str(run / "initial")]


def _model(recipe: Recipe, stage: TrainStage) -> list[Options]:
    model = recipe.model
    heads = ["--num-attention-heads", model.num_attention_heads]
    options: list[list[Any]] = [
        ["--num-layers", model.num_layers],
        ["--hidden-size", model.hidden_size],
        ["--ffn-hidden-size", model.ffn_hidden_size],
        [*heads, "--group-query-attention", "--num-query-groups", model.num_query_groups],
        ["--kv-channels", model.kv_channels],
        ["--position-embedding-type", "rope", "--rotary-percent", model.rotary_percent],
        ["--rotary-base", stage.rotary_base, "--no-rope-fusion"],
        # Megatron counts the tokens to the left, the recipe counts the token itself too.
        ["--window-size", f"{model.sliding_window - 1},0"],
        ["--window-attn-skip-freq", model.window_attn_skip_freq],
        ["--attention-backend", stage.attention_backend],
        ["--normalization", "RMSNorm", "--norm-epsilon", model.norm_epsilon],
        *([["--qk-layernorm"]] if model.qk_layernorm else []),
        # The gate on window layers alone is no switch of megatron-core's; the layer spec brings it.
        *([["--attention-output-gate"]] if model.attention_output_gate == "all" else []),
        ["--attention-dropout", "0.0", "--hidden-dropout", "0.0"],
        ["--swiglu", "--disable-bias-linear", "--untie-embeddings-and-output-weights"],
        ["--init-method-std", model.init_method_std],
        ["--make-vocab-size-divisible-by", model.make_vocab_size_divisible_by],
        ["--transformer-impl", stage.engine],
    ]
    return _text(options)


def _training(stage: TrainStage, length: Plan) -> list[Options]:
    optimizer, schedule = stage.optimizer, stage.schedule
    options: list[list[Any]] = [
        ["--micro-batch-size", stage.micro_batch_size, "--global-batch-size", stage.global_batch_size],
        ["--seq-length", stage.seq_length, "--max-position-embeddings", stage.seq_length],
        ["--seed", stage.seed],
        ["--optimizer", optimizer.kind],
        ["--lr", optimizer.lr, "--min-lr", optimizer.min_lr, "--lr-decay-style", optimizer.lr_decay_style],
        ["--weight-decay", optimizer.weight_decay, "--clip-grad", optimizer.clip_grad],
        ["--adam-beta1", optimizer.adam_beta1, "--adam-beta2", optimizer.adam_beta2],
        ["--adam-eps", optimizer.adam_eps],
        ["--calculate-per-token-loss"],
    ]
    if optimizer.kind == "muon":
        options += [
            ["--muon-momentum", optimizer.muon_momentum],
            ["--muon-scale-mode", optimizer.muon_scale_mode],
            ["--muon-fp32-matmul-prec", optimizer.muon_fp32_matmul_prec],
            ["--muon-coefficient-type", optimizer.muon_coefficient_type],
            ["--muon-num-ns-steps", optimizer.muon_num_ns_steps],
            ["--muon-tp-mode", optimizer.muon_tp_mode],
            ["--muon-extra-scale-factor", optimizer.muon_extra_scale_factor],
            ["--muon-scalar-optimizer", optimizer.muon_scalar_optimizer],
        ]
    if schedule.train_samples:
        decay = schedule.lr_decay_samples or schedule.train_samples
        options += [
            ["--train-samples", schedule.train_samples],
            ["--lr-warmup-samples", schedule.lr_warmup_samples, "--lr-decay-samples", decay],
        ]
    else:
        options += [["--train-iters", length.iterations, "--lr-warmup-iters", schedule.lr_warmup_iters]]
    if stage.kind == "sft":
        options += [["--lr-decay-iters", length.iterations]]
    if schedule.override_opt_param_scheduler:
        options += [["--override-opt-param-scheduler"]]
    if stage.cross_entropy_fusion != "none":
        fusion = ["--cross-entropy-loss-fusion", "--cross-entropy-fusion-impl", stage.cross_entropy_fusion]
        options += [fusion]
    return _text(options)


def _precision(stage: TrainStage) -> list[Options]:
    options: list[list[Any]] = [["--bf16"]] if stage.bf16 else []
    if fp8 := stage.fp8:
        options += [
            ["--fp8-format", fp8.format, "--fp8-recipe", fp8.recipe],
            ["--fp8-amax-compute-algo", fp8.amax_compute_algo],
            ["--fp8-amax-history-len", fp8.amax_history_len],
            *([["--fp8-param-gather"]] if fp8.param_gather else []),
        ]
    if recompute := stage.recompute:
        options += [["--recompute-granularity", recompute.granularity]]
        options += [["--recompute-method", recompute.method]] if recompute.method else []
        options += [["--recompute-num-layers", recompute.num_layers]] if recompute.num_layers else []
    return _text(options)


def _parallel(stage: TrainStage) -> list[Options]:
    parallel, optimizer = stage.parallel, stage.optimizer
    # Overlaps hide communication between data-parallel ranks; with one there is nothing to hide.
    replicas, adam = stage.data_parallel_ranks, optimizer.kind == "adam"
    options: list[list[Any]] = [
        ["--tensor-model-parallel-size", parallel.tensor],
        ["--pipeline-model-parallel-size", parallel.pipeline],
        ["--context-parallel-size", parallel.context],
        *([["--sequence-parallel"]] if parallel.tensor > 1 else []),
        *([["--cp-comm-type", _CP_COMM[parallel.context_comm]]] if parallel.context > 1 else []),
        *([["--tp-comm-overlap"]] if parallel.tp_comm_overlap else []),
        *([["--use-distributed-optimizer"]] if optimizer.distributed else []),
        # Adam's shards are saved by data-parallel rank, which no other PP could load. Muon's layer-wise
        # optimizer saves whole tensors by their names and needs nothing.
        *([["--dist-ckpt-optim-fully-reshardable"]] if optimizer.distributed and adam else []),
        *([["--overlap-grad-reduce"]] if optimizer.overlap_grad_reduce and replicas > 1 else []),
        *([["--overlap-param-gather"]] if optimizer.overlap_param_gather and replicas > 1 else []),
        ["--distributed-timeout-minutes", stage.timeout_minutes],
    ]
    return _text(options)


_CP_COMM = {"a2a": "a2a", "p2p": "p2p", "allgather": "all_gather"}


def _data(recipe: Recipe, layout: Layout, stage: TrainStage, run: Path) -> list[Options]:
    vocabulary: list[Any] = ["--vocab-size", recipe.tokenizer.vocab_size]
    cyclic = stage.data_order == "cyclic"
    # Training never tokenizes; loading a tokenizer would cost each small stage two seconds.
    tokenizer: list[Any] = ["--tokenizer-type", "NullTokenizer"]
    if stage.engine == "transformer_engine":
        tokenizer = ["--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", layout.tokenizer]
    options: list[list[Any]] = [
        tokenizer,
        vocabulary,
        ["--data-cache-path", run / "data-cache"],
        ["--split", stage.data_split],
        # Sharded, each data-parallel rank shuffles a share of its own: the order hangs on their number.
        *(
            [["--dataloader-type", "cyclic", "--no-data-sharding"]]
            if cyclic
            else [["--dataloader-type", "single"]]
        ),
        ["--no-create-attention-mask-in-dataloader"],
        ["--num-workers", stage.dataloader_workers],
        ["--num-dataset-builder-threads", stage.dataset_builder_threads],
        ["--eval-iters", stage.eval_iters, "--eval-interval", stage.eval_interval],
    ]
    return _text(options)


def _logging(recipe: Recipe, name: str, stage: TrainStage, length: Plan, run: Path) -> list[Options]:
    keep, minutes = stage.checkpoints, stage.checkpoints.exit_after_minutes
    options: list[list[Any]] = [
        ["--log-interval", stage.log_interval, "--log-throughput"],
        ["--tensorboard-dir", run / "tensorboard"],
        *trackers.options(stage, recipe.name, name, run),
        ["--save", run / "checkpoints", "--save-interval", length.save_interval],
        ["--ckpt-format", "torch_dist"],
        # Without the persistent worker, --async-save switches itself off.
        # mcore is the published strategy; the other one needs nvidia-resiliency-ext.
        *(
            [["--async-save", "--use-persistent-ckpt-worker", "--async-strategy", "mcore"]]
            if keep.async_save
            else []
        ),
        *([["--ckpt-fully-parallel-load"]] if keep.fully_parallel_load else []),
        ["--exit-signal-handler", *(["--exit-duration-in-mins", minutes] if minutes else [])],
        ["--rerun-mode", "disabled"],
    ]
    return _text(options)


def _engine(stage: TrainStage) -> list[Options]:
    """What only one engine needs. On a CPU: gloo, no CUDA kernels, initial weights that no layout changes."""
    fused = stage.gradient_accumulation_fusion and stage.engine == "transformer_engine"
    options = [] if fused else [["--no-gradient-accumulation-fusion"]]
    if stage.engine == "local":
        options += [["--distributed-backend", "gloo"], ["--use-cpu-initialization"]]
        options += [["--no-masked-softmax-fusion", "--no-persist-layer-norm"]]
    return options


def _text(options: list[list[Any]]) -> list[Options]:
    return [[str(part) for part in option] for option in options]
