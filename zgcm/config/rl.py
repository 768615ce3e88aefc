"""RL stages: prompts, rollout, reward, learner, evaluation. Defaults are the published ones."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from zgcm.config.base import Count, Decay, Place, Section, Seed, Url, execution
from zgcm.config.resources import Resources
from zgcm.config.stages import _Stage

Domain = Literal["math", "code", "if", "mixed"]


class DemoPrompts(Section):
    """Prompts of the demo generators, of the stage's domain (mixed: a third of each), with the tests of code.
    None of them is in any training text."""

    kind: Literal["demo"]
    """Generated prompts."""
    train: PositiveInt
    """Number of training prompts."""
    valid: PositiveInt
    """Number of held-out prompts for evaluation."""
    seed: NonNegativeInt = 0
    """Of the generator."""
    max_digit: int = Field(default=7, ge=1, le=9)
    """Mathematics: largest digit of the summands."""


class FilePrompts(Section):
    """Prompt JSON Lines as the published trainers read them."""

    kind: Literal["files"]
    """Prompt files of yours."""
    train: Place
    """JSON Lines of training prompts."""
    valid: Place
    """JSON Lines of evaluation prompts."""
    assets: Place | None = execution(None)
    """Code: directory of the tests that prompts name by hash, with manifest.json (`zgcm prompts convert`)."""
    expected_train_rows: PositiveInt | None = execution(None)
    """Guard: the file must have exactly so many prompts."""
    expected_valid_rows: PositiveInt | None = execution(None)
    """Guard, as for the training file."""
    overlap: Literal["error", "drop"] = "error"
    """Training prompts that repeat an evaluation prompt (word for word, or 13 words in a row): refuse the
    files, or leave these training prompts out and say how many."""


Prompts = Annotated[DemoPrompts | FilePrompts, Field(discriminator="kind")]


class Sampling(Section):
    """How responses are drawn."""

    n_samples: PositiveInt = 8
    """Responses a prompt."""
    max_new_tokens: PositiveInt = 65536
    """Longest response."""
    min_new_tokens: NonNegativeInt = 0
    """No end of response before so many tokens."""
    max_tokens: PositiveInt = 98304
    """Prompt and response together."""
    temperature: NonNegativeFloat = 1.0
    """Of sampling; advantages assume that of the rollout."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Nucleus of sampling; 1 means all tokens."""
    top_k: PositiveInt = 100_000_000
    """Values beyond the vocabulary mean no limit."""
    greedy: bool = False
    """Take the most likely token instead of sampling."""
    ignore_eos: bool = False
    """Go on after the end-of-text token (benchmarks only)."""
    frequency_penalty: float = 0.0
    """Penalty on tokens by how often they occurred."""

    @model_validator(mode="after")
    def _fits(self) -> "Sampling":
        if self.max_new_tokens > self.max_tokens:
            raise ValueError(f"max_new_tokens {self.max_new_tokens} exceeds max_tokens {self.max_tokens}")
        if self.min_new_tokens > self.max_new_tokens:
            raise ValueError(
                f"min_new_tokens {self.min_new_tokens} exceeds max_new_tokens {self.max_new_tokens}"
            )
        return self


class Rollout(Section):
    """vLLM engines as Ray actors."""

    sampling: Sampling = Sampling()
    """Of training responses."""
    max_head_offpolicyness: int = Field(default=1, ge=0, le=1)
    """How many updates old the policy of a response may be: 0, or 1 (rollouts overlap the update)."""
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    """Of the engine's weights and cache."""
    max_model_len: PositiveInt = 98304
    """Longest prompt and response an engine accepts."""
    engines: Count = execution(1)
    """vLLM engines in parallel."""
    tensor_parallel: Count = execution(1)
    """GPUs of one engine."""
    gpu_memory_utilization: float = execution(0.88, gt=0, le=1)
    """Share of a GPU's memory an engine takes."""
    kv_cache_mb: PositiveInt | None = execution(None)
    """CPU only: key/value cache of one engine."""
    enforce_eager: bool = execution(False)
    """Run without compiled graphs."""
    prefix_caching: bool = execution(False)
    """Reuse the cache of shared prompt beginnings."""
    disable_sliding_window: bool = False
    """Attend to everything in every layer; not what the model was trained with."""
    setup_timeout: PositiveInt = execution(3600)
    """Seconds for the engines to start, for the learner, and for the nodes of a job to join Ray."""
    request_timeout: PositiveInt = execution(14400)
    """Seconds for the responses to a batch of prompts, which the engines get at once."""
    sync_timeout: PositiveInt = execution(1800)
    """Seconds for new weights to reach every engine; without it a stuck broadcast would hang for ever."""


class Difficulty(Section):
    """How often the initial policy solves each training prompt, and which prompts are kept for training."""

    samples: PositiveInt = 8
    """Responses a prompt, sampled as `rollout.sampling` says."""
    min_pass_rate: float = Field(default=0.0, ge=0, le=1)
    """Prompts solved less often are left out; 0: none. 1/samples leaves out those that were never solved."""
    max_pass_rate: float = Field(default=1.0, ge=0, le=1)
    """Prompts solved more often are left out; 1: none."""
    assumed: bool = execution(False)
    """The bounds were never published: dry run and report say so."""
    shards: Count = execution(1)
    """Jobs that share the prompts, each with an engine of its own. Their number changes no result."""
    resources: Resources = execution(Resources(mem_mb=4000))
    """What one of these jobs asks the scheduler for."""

    @model_validator(mode="after")
    def _bounds(self) -> "Difficulty":
        rates = [passes / self.samples for passes in range(self.samples + 1)]
        if not any(self.min_pass_rate <= rate <= self.max_pass_rate for rate in rates):
            raise ValueError(
                f"no prompt can be kept: none of 0/{self.samples} to {self.samples}/{self.samples} lies "
                f"between min_pass_rate {self.min_pass_rate:g} and max_pass_rate {self.max_pass_rate:g}"
            )
        return self


class LengthPenalty(Section):
    """Correct answers only: reward x (1 - max x clip((tokens - start) / (end - start), 0, 1))."""

    start: NonNegativeInt = 16384
    """Response tokens from which the penalty grows."""
    end: PositiveInt = 65536
    """Response tokens at which it is full."""
    max: float = Field(default=0.05, ge=0, le=1)
    """Full penalty, as a share of the reward."""

    @model_validator(mode="after")
    def _order(self) -> "LengthPenalty":
        if self.start >= self.end:
            raise ValueError(f"start {self.start} is not below end {self.end}")
        return self


class Sandbox(Section):
    """Where programs of the domain `code` run. The first three decide verdicts."""

    max_tests: int = Field(default=8, ge=1, le=64)
    """Tests of a program in training, chosen by its prompt. Evaluations take up to 64, and all must pass."""
    test_timeout: float = Field(default=2.0, ge=0.1, le=10)
    """Seconds a test."""
    memory_mb: int = Field(default=1024, ge=64, le=65536)
    """MiB that a program's process may take."""
    slots: Annotated[int, Field(ge=1, le=256)] | None = execution(None)
    """Programs at a time. Absent: one a core, at most 32; of a service at `url`: 32 requests at a time."""
    url: Url | None = execution(None)
    """A service that runs already: http://HOST:PORT. Absent: the stage starts one of its own and stops it."""
    token_file: Place | None = execution(None)
    """With `url`: file of mode 0600 that holds its token. Absent: $ZGCM_CODE_SANDBOX_TOKEN."""
    request_timeout: PositiveInt = execution(300)
    """Seconds for one answer of the service, its queue included."""


class OpenInstruct(Section):
    """Instructions: the checkers of a checkout of Open-Instruct, as in the published trainer."""

    checkout: Place = execution()
    """Directory of the clone: it holds open_instruct/IFEvalG."""
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    """Of the checkers' files; `zgcm reward if --open-instruct` says it. Another content is refused."""


class Reward(Section):
    """How a response is judged; its prompt's domain chooses the judge."""

    length_penalty: LengthPenalty | None = None
    """Mathematics only, as published. Absent: the raw reward."""
    tolerance: NonNegativeFloat = 0.0
    """Mathematics: relative error forgiven where an answer or its label is a decimal. 0: none."""
    verify_timeout: PositiveFloat = execution(8.0)
    """Seconds for one verification of mathematics or of instructions; then its process is killed."""
    workers: Count = execution(1)
    """Killable verifier processes."""
    sandbox: Sandbox = Sandbox()
    """Code: where programs run, and their limits."""
    open_instruct: OpenInstruct | None = None
    """Instructions: other checkers. Absent: those that ship in lm-eval."""


class Learner(Section):
    """The torch learner: FSDP2, GRPO loss (published keys under `actor`)."""

    optimizer: Literal["adam", "muon"] = "adam"
    """Published: adam."""
    lr: PositiveFloat = 1e-6
    """Learning rate."""
    weight_decay: NonNegativeFloat = 0.01
    """Decoupled."""
    beta1: Decay = 0.9
    """Adam's first moment."""
    beta2: Decay = 0.999
    """Adam's second moment."""
    eps: PositiveFloat = 1e-8
    """Adam's epsilon."""
    lr_scheduler: Literal["constant"] = "constant"
    """Shape of the rate after the warm-up."""
    warmup_proportion: float = Field(default=0.03, ge=0, le=1)
    """Share of the steps in which the rate rises to `lr`."""
    clip_grad: PositiveFloat = 1.0
    """Largest gradient norm."""
    minibatches: PositiveInt = 12
    """Updates made of one batch of trajectories."""
    eps_clip: PositiveFloat = 0.2
    """PPO's clipping range of the probability ratio."""
    ratio_mask_upper: PositiveFloat = 5.0
    """Tokens whose importance ratio exceeds this are masked out."""
    decoupled_loss: bool = True
    """Clip against recomputed log-probabilities, weight by their ratio to the rollout's."""
    recompute_logprob: bool = True
    """Recompute log-probabilities with the learner instead of trusting the engine's."""
    kl_coefficient: NonNegativeFloat = 0.0
    """Weight of the divergence from a reference policy; there is none, so 0, as published."""
    reward_scaling: PositiveFloat = 1.0
    """Factor on rewards."""
    reward_bias: float = 0.0
    """Added to rewards before scaling."""
    advantage_norm: Literal["batch", "none"] = "batch"
    """Normalise advantages again over the batch."""
    max_tokens_per_microbatch: PositiveInt = 69632
    """Packed rows of a micro-batch, first-fit decreasing; also the longest trainable trajectory."""
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    """Of the forward and backward pass."""
    attention: Literal["flash_attention_3", "flash_attention_2", "sdpa"] = execution("flash_attention_3")
    """Attention kernel."""
    gradient_checkpointing: bool = execution(True)
    """Recompute activations in the backward pass."""
    disable_dropout: bool = True
    """The model has none; kept from the published configuration."""
    processes: Count = execution(1)
    """FSDP2 ranks."""
    timeout: PositiveInt = execution(14400)
    """Seconds for one call: a step, the log-probabilities of a batch, a save or a load."""
    weight_transfer: Literal["auto", "nccl", "object_store"] = execution("auto")
    """How new weights reach the engines: from GPU to GPU, or through host memory. `auto`: `nccl` on GPUs."""

    @model_validator(mode="after")
    def _possible(self) -> "Learner":
        if self.kl_coefficient:
            raise ValueError(f"kl_coefficient {self.kl_coefficient:g}: there is no reference policy; use 0")
        if self.optimizer == "muon" and self.processes > 1:
            raise ValueError(
                f"optimizer muon needs whole matrices, and {self.processes} processes shard them; use adam, "
                "or one process"
            )
        if self.decoupled_loss and not self.recompute_logprob:
            raise ValueError(
                "decoupled_loss weighs the recomputed log-probabilities by the rollout's, and "
                "recompute_logprob is false; set both or neither"
            )
        return self


class Evaluation(Section):
    """Measured on the held-out prompts, without length penalty."""

    every_steps: PositiveInt = 10
    """Steps between evaluations; before the first and after the last step always."""
    batch_size: PositiveInt = 153
    """Prompts given to the engines at once."""
    sampling: Sampling = Sampling()
    """Of evaluation responses."""


class RLCheckpoints(Section):
    """When to save. Never identity."""

    save_every_steps: PositiveInt = execution(10)
    """Steps between saved policies."""
    save_every_epochs: PositiveInt | None = execution(1)
    """Also save after so many passes over the prompts."""
    recover_every_steps: PositiveInt = execution(1)
    """Steps between saved states to resume from."""
    keep_recent: PositiveInt = execution(2)
    """Resume states to keep."""


class RLStage(_Stage):
    """A GRPO stage: prompts -> rollouts -> rewards -> updates -> version-anchored evaluation markers."""

    kind: Literal["rl"]
    """Reinforcement learning."""
    init: str = "sft"
    """The stage whose exported policy it starts from."""
    domain: Domain
    """Which prompts it takes and how answers are judged; `mixed` takes prompts of all domains, each judged by
    its own."""
    prompts: Prompts
    """What is asked."""
    difficulty: Difficulty | None = None
    """Leave out prompts that the initial policy solves too often or too rarely. Absent: train on all."""
    seed: Seed = 42
    """Of prompt order and sampling."""
    epochs: PositiveInt = 3
    """Passes over the prompts at most."""
    steps: PositiveInt
    """Policy updates (each of `learner.minibatches` optimizer steps)."""
    batch_size: PositiveInt = 384
    """Prompts a step."""
    max_prompt_tokens: PositiveInt = 4096
    """Longer prompts are refused."""
    shuffle: bool = True
    """Shuffle the prompts in every pass."""
    drop_last: bool = True
    """Leave out a last batch that is not full."""
    rollout: Rollout = Rollout()
    """How responses are generated."""
    reward: Reward = Reward()
    """How responses are judged."""
    learner: Learner = Learner()
    """How the policy learns."""
    evaluation: Evaluation = Evaluation()
    """How policies are measured."""
    checkpoints: RLCheckpoints = execution(RLCheckpoints())
    """When to save."""

    def runs_programs(self) -> bool:
        """Whether it needs a sandbox: mixed prompts may hold none of code, but that takes reading them."""
        return self.domain in ("code", "mixed")

    def weight_transport(self) -> Literal["nccl", "object_store"]:
        """How new weights reach the engines: as `learner.weight_transfer` says, `auto` resolved."""
        if self.learner.weight_transfer != "auto":
            return self.learner.weight_transfer
        return "object_store" if self.resources.on_cpu else "nccl"

    def training_prompts(self) -> int | None:
        """Their number, as far as the recipe says."""
        prompts = self.prompts
        return prompts.train if isinstance(prompts, DemoPrompts) else prompts.expected_train_rows

    def evaluation_versions(self) -> list[int]:
        """Policy versions that are evaluated: the baseline 0, every `evaluation.every_steps`, the last."""
        return sorted({*range(0, self.steps, self.evaluation.every_steps), self.steps})


def steps_per_epoch(prompts: int, batch_size: int, drop_last: bool) -> int:
    """Steps that one pass over so many prompts gives."""
    return prompts // batch_size if drop_last else -(-prompts // batch_size)
