"""Runs in a process of its own: vLLM's greedy tokens, before and after a weight sync.

python -m tests.model.vllm_process DIRECTORY OUT: DIRECTORY/hf is served, then given the weights of
DIRECTORY/other. With VLLM_PLUGINS set to nothing, vLLM does not know the model and runs its remote code.
"""

import os
import sys
from pathlib import Path

LENGTHS = (3, 16, 17, 40, 100)  # around and beyond the window of 16
NEW_TOKENS = 60


def prompts() -> list[list[int]]:
    from tests.model import small

    return [small.tokens(length, seed=length)[0].tolist() for length in LENGTHS]


def main(directory: Path, out: Path) -> None:
    os.environ |= {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "TORCHDYNAMO_DISABLE": "1",
    }
    from safetensors.torch import load_file
    from vllm import LLM, SamplingParams

    from zgcm.io import write_json

    engine = LLM(
        str(directory / "hf"),
        trust_remote_code="VLLM_PLUGINS" in os.environ,
        skip_tokenizer_init=True,
        dtype="float32",
        max_model_len=200,
        enforce_eager=True,
        kv_cache_memory_bytes=32 << 20,
        max_num_batched_tokens=1024,
        max_num_seqs=8,
    )
    greedy = SamplingParams(
        temperature=0, max_tokens=NEW_TOKENS, ignore_eos=True, detokenize=False, logprobs=0
    )

    def generate() -> list[list[int]]:
        requests = [{"prompt_token_ids": prompt} for prompt in prompts()]
        outputs = engine.generate(requests, greedy, use_tqdm=False)
        return [list(output.outputs[0].token_ids) for output in outputs]

    results = {"module": engine.apply_model(lambda model: type(model).__module__)[0], "before": generate()}
    weights = {}
    for file in sorted((directory / "other").glob("*.safetensors")):
        weights |= load_file(file)
    engine.collective_rpc("reload_weights", kwargs={"weights_iterator": iter(weights.items())})
    engine.reset_prefix_cache()
    results["after"] = generate()
    write_json(out, results)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
