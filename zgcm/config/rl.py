"""RL stages: prompts, rollout, reward, learner, evaluation. Defaults are the published ones."""

from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from zgcm.config.base import Section, execution
from zgcm.config.stages import _Stage


class DemoPrompts(Section):
    """Arithmetic prompts of the demo generator, none of them in any training text."""

    kind: Literal["demo"]
    train: PositiveInt
    valid: PositiveInt
    seed: NonNegativeInt = 0
    settings: dict[str, Any] = {}


class FilePrompts(Section):
    """Prompt JSON Lines as the published trainers read them (fact sheet 6.3)."""

    kind: Literal["files"]
    train: str
    valid: str
    expected_train_rows: PositiveInt | None = execution(None)
    """Guard: the file must have exactly so many prompts."""
    expected_valid_rows: PositiveInt | None = execution(None)


Prompts = Annotated[DemoPrompts | FilePrompts, Field(discriminator="kind")]


class Sampling(Section):
    n_samples: PositiveInt = 8
    """Responses a prompt."""
    max_new_tokens: PositiveInt = 65536
    min_new_tokens: NonNegativeInt = 0
    max_tokens: PositiveInt = 98304
    """Prompt and response together."""
    temperature: NonNegativeFloat = 1.0
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: PositiveInt = 100_000_000
    """Values beyond the vocabulary mean no limit."""
    greedy: bool = False
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    frequency_penalty: float = 0.0

    @model_validator(mode="after")
    def _fits(self) -> "Sampling":
        if self.max_new_tokens > self.max_tokens:
            raise ValueError(f"max_new_tokens {self.max_new_tokens} exceeds max_tokens {self.max_tokens}")
        if self.min_new_tokens > self.max_new_tokens:
            raise ValueError(f"min_new_tokens {self.min_new_tokens} exceeds max_new_tokens {self.max_new_tokens}")
        return self


class Rollout(Section):
    """vLLM engines as Ray actors."""

    sampling: Sampling = Sampling()
    max_head_offpolicyness: NonNegativeInt = 1
    """How many updates old the policy of a response may be."""
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    max_model_len: PositiveInt = 98304
    engines: PositiveInt = execution(1)
    tensor_parallel: PositiveInt = execution(1)
    gpu_memory_utilization: float = execution(0.88, gt=0, le=1)
    kv_cache_mb: PositiveInt | None = execution(None)
    """CPU only: key/value cache of one engine."""
    enforce_eager: bool = execution(False)
    prefix_caching: bool = execution(False)
    disable_sliding_window: bool = False
    setup_timeout: PositiveInt = execution(3600)
    request_timeout: PositiveInt = execution(14400)


class LengthPenalty(Section):
    """Correct answers only: reward x (1 - max x clip((tokens - start) / (end - start), 0, 1))."""

    start: NonNegativeInt = 16384
    end: PositiveInt = 65536
    max: float = Field(default=0.05, ge=0, le=1)

    @model_validator(mode="after")
    def _order(self) -> "LengthPenalty":
        if self.start >= self.end:
            raise ValueError(f"start {self.start} is not below end {self.end}")
        return self


class Reward(Section):
    length_penalty: LengthPenalty | None = None
    timeout: PositiveFloat = execution(120.0)
    """Seconds for the whole reward of one response; one verification has its own hard deadline."""
    verify_timeout: PositiveFloat = execution(8.0)
    workers: PositiveInt = execution(1)
    """Killable verifier processes."""


class Learner(Section):
    """The torch learner: FSDP2, GRPO loss (fact sheet 6.1, keys under `actor`)."""

    optimizer: Literal["adam", "muon"] = "adam"
    lr: PositiveFloat = 1e-6
    weight_decay: NonNegativeFloat = 0.01
    beta1: PositiveFloat = 0.9
    beta2: PositiveFloat = 0.999
    eps: PositiveFloat = 1e-8
    lr_scheduler: Literal["constant"] = "constant"
    warmup_proportion: NonNegativeFloat = 0.03
    clip_grad: PositiveFloat = 1.0
    minibatches: PositiveInt = 12
    eps_clip: PositiveFloat = 0.2
    ratio_mask_upper: PositiveFloat = 5.0
    """Tokens whose importance ratio exceeds this are masked out."""
    decoupled_loss: bool = True
    recompute_logprob: bool = True
    kl_coefficient: NonNegativeFloat = 0.0
    reward_scaling: float = 1.0
    reward_bias: float = 0.0
    mask_no_eos_with_zero: bool = False
    reward_norm: Literal["group"] = "group"
    advantage_norm: Literal["batch", "none"] = "batch"
    max_tokens_per_microbatch: PositiveInt = 69632
    """Packed rows of a micro-batch, first-fit decreasing; also the longest trainable trajectory."""
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    optimizer_dtype: Literal["float32"] = "float32"
    attention: Literal["flash_attention_3", "flash_attention_2", "sdpa"] = execution("flash_attention_3")
    gradient_checkpointing: bool = execution(True)
    disable_dropout: bool = True
    processes: PositiveInt = execution(1)
    weight_transfer: Literal["nccl", "object_store"] = execution("nccl")


class Evaluation(Section):
    every_steps: PositiveInt = 10
    batch_size: PositiveInt = 153
    sampling: Sampling = Sampling()


class RLCheckpoints(Section):
    save_every_steps: PositiveInt = execution(10)
    save_every_epochs: PositiveInt | None = execution(1)
    recover_every_steps: PositiveInt = execution(1)
    keep_recent: PositiveInt = execution(2)


class RLStage(_Stage):
    """A GRPO stage: prompts -> rollouts -> rewards -> updates -> version-anchored evaluation markers."""

    kind: Literal["rl"]
    init: str = "sft"
    domain: Literal["math", "code", "if", "mixed"]
    prompts: Prompts
    seed: NonNegativeInt = 42
    epochs: PositiveInt = 3
    steps: PositiveInt
    batch_size: PositiveInt = 384
    """Prompts a step."""
    max_prompt_tokens: PositiveInt = 4096
    shuffle: bool = True
    drop_last: bool = True
    rollout: Rollout = Rollout()
    reward: Reward = Reward()
    learner: Learner = Learner()
    evaluation: Evaluation = Evaluation()
    checkpoints: RLCheckpoints = execution(RLCheckpoints())

    def evaluation_versions(self) -> list[int]:
        """Policy versions that are evaluated: the baseline 0, every `evaluation.every_steps`, the last."""
        return sorted({*range(0, self.steps, self.evaluation.every_steps), self.steps})
