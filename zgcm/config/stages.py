"""Training stages: what to start from, what to train on, with which schedule, layout and precision.

Defaults are the published 7B values where all stages share one.
"""

import re
from typing import Literal

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    field_validator,
    model_validator,
)

from zgcm.config.base import Count, Decay, Place, Section, Seed, execution
from zgcm.config.resources import Resources


class Optimizer(Section):
    """Muon on the matrices, Adam on embeddings, output head and norms; or Adam alone."""

    kind: Literal["muon", "adam"] = "muon"
    """Muon (with Adam) or Adam alone."""
    lr: PositiveFloat
    """Highest learning rate, of matrices and the rest alike."""
    min_lr: NonNegativeFloat = 0.0
    """Where the decay ends; without effect when constant."""
    lr_decay_style: Literal["constant", "cosine", "linear"] = "constant"
    """Shape of the rate after the warm-up."""
    weight_decay: NonNegativeFloat = 0.1
    """Decoupled; norms have none."""
    adam_beta1: Decay = 0.9
    """Adam's first moment."""
    adam_beta2: Decay = 0.95
    """Adam's second moment."""
    adam_eps: PositiveFloat = 1e-8
    """Adam's epsilon."""
    clip_grad: NonNegativeFloat = 1.0
    """Largest gradient norm; 0: no clipping."""
    muon_momentum: Decay = 0.9
    """Of the exponential average that is orthogonalised."""
    muon_scale_mode: Literal["spectral", "unit_rms_norm", "shape_scaling"] = "spectral"
    """How an update is scaled by its matrix's shape."""
    muon_fp32_matmul_prec: Literal["medium", "high"] = "medium"
    """Of the orthogonalisation: bf16 (medium) or TF32 (high). torch has no `low`, which Megatron offers."""
    muon_coefficient_type: Literal["quintic", "polar_express", "simple"] = "quintic"
    """Coefficients of the Newton-Schulz iteration."""
    muon_num_ns_steps: PositiveInt = 5
    """Newton-Schulz steps; a multiple of 5 for quintic."""
    muon_tp_mode: Literal["blockwise", "duplicated", "distributed"] = "blockwise"
    """blockwise: each tensor-parallel rank orthogonalises its own part."""
    muon_extra_scale_factor: PositiveFloat = 1.0
    """Further factor on updates."""
    muon_scalar_optimizer: Literal["adam", "lion"] = "adam"
    """For everything that is not a matrix of a layer."""
    distributed: bool = execution(True)
    """Shard optimizer state over data parallel ranks (Muon: the layer-wise optimizer)."""
    overlap_grad_reduce: bool = execution(True)
    """Reduce gradients while the backward pass goes on."""
    overlap_param_gather: bool = execution(False)
    """Gather parameters while the forward pass goes on."""

    @model_validator(mode="after")
    def _rates_and_steps(self) -> "Optimizer":
        if self.min_lr > self.lr:
            raise ValueError(f"min_lr {self.min_lr:g} is greater than lr {self.lr:g}")
        quintic = self.kind == "muon" and self.muon_coefficient_type == "quintic"
        if quintic and self.muon_num_ns_steps % 5:
            raise ValueError(
                f"muon_num_ns_steps {self.muon_num_ns_steps} is not a multiple of 5: `quintic` has five sets "
                "of coefficients, one a step, and only the whole round orthogonalises"
            )
        return self


class Schedule(Section):
    """How long to train. Give iterations or samples; SFT derives iterations from its data and `epochs`."""

    train_iters: PositiveInt | None = None
    """Cumulative over the stages that continue one another, as Megatron counts."""
    train_samples: PositiveInt | None = None
    """Sequences of this stage."""
    epochs: PositiveInt | None = None
    """SFT: passes over the packed data, counted in tokens."""
    lr_warmup_iters: NonNegativeInt = 0
    """Iterations of linear warm-up."""
    lr_warmup_samples: NonNegativeInt = 0
    """Samples of linear warm-up; with train_samples."""
    lr_decay_samples: PositiveInt | None = None
    """Samples until min_lr; with train_samples."""
    override_opt_param_scheduler: bool = False
    """Take the schedule from here, not from the checkpoint."""

    @model_validator(mode="after")
    def _one_length(self) -> "Schedule":
        given = [
            name for name in ("train_iters", "train_samples", "epochs") if getattr(self, name) is not None
        ]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise ValueError(f"give exactly one of train_iters, train_samples, epochs; found {found}")
        by_samples = self.train_samples is not None
        if by_samples and self.lr_warmup_iters:
            raise ValueError("train_samples goes with lr_warmup_samples, not with lr_warmup_iters")
        if not by_samples and (self.lr_warmup_samples or self.lr_decay_samples):
            raise ValueError("lr_warmup_samples and lr_decay_samples go with train_samples only")
        whole = (self.lr_decay_samples or self.train_samples) if by_samples else self.train_iters
        warmup = self.lr_warmup_samples if by_samples else self.lr_warmup_iters
        if whole is not None and warmup >= whole:
            raise ValueError(f"a warm-up of {warmup} leaves nothing of a schedule of {whole}")
        return self


class Parallel(Section):
    """Layout of the ranks. TP is identity (block-wise Muon depends on it); the rest is execution."""

    tensor: Count = 1
    """TP: ranks that share each matrix."""
    pipeline: Count = execution(1)
    """PP: ranks that share the layers."""
    context: Count = execution(1)
    """CP: ranks that share a sequence."""
    context_comm: Literal["a2a", "p2p", "allgather"] = execution("a2a")
    """How context-parallel ranks exchange keys and values."""
    tp_comm_overlap: bool = execution(False)
    """Overlap tensor-parallel communication with computation."""


class Fp8(Section):
    """Transformer Engine's FP8. Asking for it where it is not installed is an error, never silence."""

    format: Literal["hybrid", "e4m3"] = "hybrid"
    """hybrid: e4m3 forward, e5m2 backward."""
    recipe: Literal["delayed", "tensorwise", "mxfp8", "blockwise"] = "delayed"
    """How scaling factors are chosen."""
    amax_compute_algo: Literal["max", "most_recent"] = "max"
    """Which of the recorded maxima counts."""
    amax_history_len: PositiveInt = 1024
    """Recorded maxima, in steps."""
    param_gather: bool = True
    """Keep and gather parameters in FP8."""


class Recompute(Section):
    """Activations computed again in the backward pass instead of kept."""

    granularity: Literal["selective", "full"] = execution("selective")
    """selective: attention only; full: whole layers."""
    method: Literal["uniform", "block"] | None = execution(None)
    """How full recomputation groups layers."""
    num_layers: PositiveInt | None = execution(None)
    """Layers of a group."""


class Checkpoints(Section):
    """When to save and what to keep. Never identity: results do not depend on it."""

    save_interval: PositiveInt | None = execution(None)
    """Iterations between saves; SFT: absent means once an epoch."""
    save_every_epochs: PositiveInt = execution(1)
    """SFT: epochs between saves."""
    keep_recent: PositiveInt = execution(2)
    """Newest checkpoints to keep."""
    keep_every: PositiveInt | None = execution(None)
    """Also keep every N-th iteration for good."""
    async_save: bool = execution(False)
    """Write in the background while training goes on."""
    fully_parallel_load: bool = execution(False)
    """Each rank reads a part of the checkpoint and exchanges it with the others."""
    exit_after_minutes: PositiveInt | None = execution(None)
    """Save and end the attempt after so many minutes of training, before the queue's limit
    (`resources.runtime_minutes`) does; the next attempt resumes."""


class Spikes(Section):
    """What to do when the loss or the gradient norm leaps, or is not a finite number.

    An iteration is abnormal when its loss or gradient norm lies more than `deviations` standard deviations
    above the mean of the `window` iterations before it; `patience` abnormal ones in a row are a spike. Judged
    from half a window on. With `stop` none of this is identity: a run that ends was never touched by it.
    """

    policy: Literal["stop", "skip", "rewind"] = "stop"
    """stop: a person decides; skip: train again from before the spike, without its batches; rewind: without
    the `rewind_iterations` batches before it either."""
    window: PositiveInt = 128
    """Iterations that say what is normal."""
    deviations: float = Field(default=6.0, gt=0, le=1000)
    """Standard deviations above the mean that are abnormal."""
    patience: PositiveInt = 3
    """Abnormal iterations in a row that make a spike; a loss that is not finite is one at once."""
    rewind_iterations: PositiveInt = 100
    """rewind: batches before the spike that are left out too."""
    limit: PositiveInt = execution(10)
    """skip, rewind: spikes of a run after which it stops all the same."""

    @model_validator(mode="after")
    def _lasting_leap_counts(self) -> "Spikes":
        # n equal leaps among w values: the next one lies (1 - n/w) / sqrt(n/w (1 - n/w)) deviations above.
        most = int((self.window - 1) / (1 + self.deviations**2)) + 1
        if self.patience > most:
            raise ValueError(
                f"patience {self.patience} can never be reached: abnormal iterations enter the window too, "
                f"and after {most} equal ones the next is normal; use a longer window or fewer deviations"
            )
        return self


class _Stage(Section):
    init: str | None = None
    """The stage whose weights it starts from; absent: random initialisation."""
    resources: Resources = execution(Resources())
    """What its job asks the scheduler for."""


class TrainStage(_Stage):
    """A stage that megatron-core trains: pretraining, mid-training or SFT."""

    kind: Literal["pretrain", "sft"]
    """pretrain (also mid-training) or sft."""
    continues: bool = False
    """Continue the iteration and consumed samples of `init` too (stage 2 of pretraining)."""
    mix: dict[str, PositiveFloat] = Field(min_length=1)
    """Mix -> weight of each of its shards in the blend; one mix alone is not a blend."""
    data_order: Literal["sequential", "shuffled", "cyclic"] = "shuffled"
    """sequential: the mix's own order, never shuffled again; shuffled: Megatron's seeded shuffle;
    cyclic: SFT, a permutation of the packed sequences each epoch."""
    data_split: str = "100,0,0"
    """Shares of the data for training, validation, test."""
    eval_iters: NonNegativeInt = execution(0)
    """Validation batches at each evaluation; 0: none."""
    eval_interval: PositiveInt = execution(1000)
    """Iterations between evaluations."""
    seed: Seed = 6198
    """Of initialisation and shuffling."""
    seq_length: PositiveInt
    """Context of one sample, in tokens."""
    micro_batch_size: PositiveInt = execution()
    """Sequences a rank computes at once; like the number of ranks it only regroups sums."""
    global_batch_size: PositiveInt
    """Sequences of one optimizer step."""
    rotary_base: PositiveInt = 5_000_000
    """Base of the rotary frequencies."""
    optimizer: Optimizer
    """Rates and rules of the update."""
    schedule: Schedule
    """How long, and the course of the rate."""
    parallel: Parallel = Parallel()
    """How ranks share the work."""
    fp8: Fp8 | None = None
    """Absent: no FP8."""
    bf16: bool = True
    """Compute in bf16 with fp32 master weights; false: fp32."""
    engine: Literal["transformer_engine", "local"] = "transformer_engine"
    """Megatron's layer implementation; `local` runs on a CPU."""
    attention_backend: Literal["flash", "fused", "unfused", "auto"] = "flash"
    """Attention kernel of Transformer Engine; local layers use unfused."""
    cross_entropy_fusion: Literal["none", "native", "te"] = "none"
    """Fused loss kernel: Megatron's (native) or Transformer Engine's (te)."""
    recompute: Recompute | None = execution(None)
    """Absent: keep all activations."""
    checkpoints: Checkpoints = execution(Checkpoints())
    """When to save and what to keep."""
    spikes: Spikes = Spikes()
    """What to do when the loss leaps."""
    trackers: list[Literal["wandb", "swanlab"]] = execution([])
    """Experiment trackers to log to beside TensorBoard; each must be installed."""
    log_interval: PositiveInt = execution(10)
    """Iterations between lines of the engine's log; loss.jsonl has every one."""
    dataloader_workers: int = execution(4, ge=0, le=1024)
    """Reader processes a rank."""
    dataset_builder_threads: Count = execution(8)
    """Threads that open shards."""
    dataloader_prefetch: PositiveInt | None = execution(None)
    """Batches a worker reads ahead."""
    timeout_minutes: PositiveInt = execution(120)
    """Of a distributed collective."""
    gradient_accumulation_fusion: bool = execution(True)
    """Accumulate weight gradients inside the matrix kernel; never with `engine: local`."""
    expected_train_tokens: PositiveInt | None = execution(None)
    """SFT guard: the packed data must have exactly this many tokens. Checked, never computed with."""
    expected_train_records: PositiveInt | None = execution(None)
    """SFT guard: the packed data must have exactly this many packed sequences."""

    @property
    def data_parallel_ranks(self) -> int:
        """Groups of ranks that each hold the whole model and take a share of every batch."""
        ranks = self.parallel
        return self.resources.world_size // (ranks.tensor * ranks.pipeline * ranks.context)

    @property
    def shares(self) -> list[float]:
        """Of training, validation and test."""
        return [float(share) for share in self.data_split.split(",")]

    @field_validator("data_split")
    @classmethod
    def _three_shares(cls, split: str) -> str:
        number = r" *\d+(\.\d+)? *"
        if not re.fullmatch(f"{number},{number},{number}", split) or not float(split.split(",")[0]):
            raise ValueError(f"found {split!r}; expected three numbers, the first above 0, such as '99,1,0'")
        return split

    @model_validator(mode="after")
    def _kind_fits(self) -> "TrainStage":
        if self.continues and self.init is None:
            raise ValueError("`continues: true` needs `init`, the stage to continue")
        if (self.kind == "sft") != (self.schedule.epochs is not None):
            raise ValueError("SFT counts `schedule.epochs`; other stages count train_iters or train_samples")
        if self.global_batch_size % self.micro_batch_size:
            raise ValueError(
                f"global_batch_size {self.global_batch_size} is not a multiple of "
                f"micro_batch_size {self.micro_batch_size}"
            )
        return self


class AdoptedStage(Section):
    """Weights of yours that other stages name as `init` (docs/start-anywhere.md)."""

    kind: Literal["adopted"]
    """Not trained here."""
    format: Literal["huggingface", "megatron"]
    """huggingface: a directory in the published layout; megatron: a torch_dist checkpoint of any ranks."""
    path: Place = execution()
    """The directory. Megatron: one with a tracker file, or one iteration. Its content is identity."""
    weights_digest: str | None = execution(None)
    """Guard: the weights must have this digest, which `zgcm adopt` prints. Checked, never computed with."""
    resources: Resources = execution(Resources(mem_mb=4000))
    """What its job asks the scheduler for."""

    @property
    def init(self) -> None:
        """It starts from nothing in the recipe."""
        return None
