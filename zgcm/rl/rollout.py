"""A vLLM engine in this process: sample responses with log-probabilities, take new weights.

The same settings, prompt and seed give the same tokens whatever else is in the batch. The variables of
zgcm.rl.environment must be set before this process imports vLLM.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zgcm.config.rl import Rollout, Sampling
from zgcm.errors import ZgcmError
from zgcm.rl.trajectory import Request, Response
from zgcm.rl.transfer import BACKEND
from zgcm.rl.weights import Checksum, Description, Payload, unpack, watched


def engine_arguments(
    policy: Path, rollout: Rollout, seed: int, *, cpu: bool, receives: bool = False
) -> dict[str, Any]:
    """vLLM's engine arguments for a stage; a pure function of the recipe. `receives`: weights by NCCL."""
    arguments: dict[str, Any] = {
        "model": str(policy),
        "dtype": rollout.dtype,
        "seed": seed,
        "max_model_len": rollout.max_model_len,
        "enforce_eager": rollout.enforce_eager,
        "enable_prefix_caching": rollout.prefix_caching,
        "disable_sliding_window": rollout.disable_sliding_window,
        "tensor_parallel_size": rollout.tensor_parallel,
        # log-probabilities of the distribution that was sampled from, temperature included
        "logprobs_mode": "processed_logprobs",
    }
    if receives:
        arguments |= {
            "weight_transfer_config": {"backend": BACKEND},
            "worker_extension_cls": "zgcm.rl.receiver.WorkerExtension",
        }
    if not cpu:
        return {**arguments, "gpu_memory_utilization": rollout.gpu_memory_utilization}
    return {
        **arguments,
        "distributed_executor_backend": "uni",
        "kv_cache_memory_bytes": (rollout.kv_cache_mb or 512) << 20,
        # a seeded request whose prefill is chunked crashes vLLM 0.32 on a CPU
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": max(2048, rollout.max_model_len),
    }


def sampling_arguments(sampling: Sampling, seed: int, prompt_tokens: int) -> dict[str, Any]:
    """vLLM's sampling parameters of one request."""
    return {
        "n": sampling.n_samples,
        "seed": seed,
        "temperature": 0.0 if sampling.greedy else sampling.temperature,
        "top_p": sampling.top_p,
        # vLLM refuses a limit above the vocabulary; 100,000,000 means none
        "top_k": 0 if sampling.top_k >= 10_000_000 else sampling.top_k,
        "max_tokens": min(sampling.max_new_tokens, sampling.max_tokens - prompt_tokens),
        "min_tokens": sampling.min_new_tokens,
        "ignore_eos": sampling.ignore_eos,
        "frequency_penalty": sampling.frequency_penalty,
        "logprobs": 0,
        "detokenize": False,
    }


class Engine:
    """One vLLM engine and the version of the policy it holds."""

    def __init__(
        self, policy: Path, rollout: Rollout, seed: int, *, cpu: bool, receives: bool = False
    ) -> None:
        from vllm import LLM

        self.llm = LLM(**engine_arguments(policy, rollout, seed, cpu=cpu, receives=receives))
        self.version = 0

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Response]]:
        """`sampling.n_samples` responses for each request, in order."""
        from vllm import SamplingParams, TokensPrompt

        parameters = [
            SamplingParams(**sampling_arguments(sampling, request.seed, len(request.prompt_ids)))
            for request in requests
        ]
        prompts = [TokensPrompt(prompt_token_ids=request.prompt_ids) for request in requests]
        outputs = self.llm.generate(prompts, parameters, use_tqdm=False)
        return [[self._response(choice) for choice in output.outputs] for output in outputs]

    def _response(self, choice: Any) -> Response:
        tokens = list(choice.token_ids)
        logprobs = [step[token].logprob for step, token in zip(choice.logprobs, tokens, strict=True)]
        return Response(tokens, logprobs, str(choice.finish_reason), self.version)

    def load(self, payload: Payload, version: int) -> str:
        """Take new weights, forget cached prefixes, and return the checksum of what the loader consumed."""
        total = Checksum()
        self.llm.collective_rpc(
            "reload_weights", kwargs={"weights_iterator": watched(unpack(payload), total)}
        )
        self._forget_prefixes()
        if total.tensors != len(payload):
            raise ZgcmError(
                "The rollout engine did not take all weights",
                found=f"{total.tensors} tensors",
                expected=str(len(payload)),
            )
        self.version = version
        return total.hexdigest()

    def join_transfer(self, address: str, world_size: int, first_rank: int) -> None:
        """Become the ranks from `first_rank` on of the group that listens at `address` (host:port)."""
        host, _, port = address.rpartition(":")
        place = {"master_address": host, "master_port": int(port)}
        init = {**place, "rank_offset": first_rank, "world_size": world_size}
        self.llm.init_weight_transfer_engine({"init_info": init})

    def receive(self, description: Description, version: int) -> str:
        """As `load`, but the weights come from the group, in the order of `description`."""
        self.llm.start_weight_update()
        self.llm.update_weights({"update_info": description})
        self.llm.finish_weight_update()
        self._forget_prefixes()
        checksums = self.llm.collective_rpc("received_checksum")
        if len(set(checksums)) > 1:
            raise ZgcmError(
                "The processes of one rollout engine took different weights",
                where=f"version {version}",
                found=", ".join(checksums),
            )
        self.version = version
        return checksums[0]

    def _forget_prefixes(self) -> None:
        """Cached keys and values of the old policy give log-probabilities off by 1 and more."""
        if not self.llm.reset_prefix_cache():
            raise ZgcmError(
                "The rollout engine could not drop its prefix cache", hint="a request was still running"
            )
