"""What the engine is asked for; the engine itself is tested by whole stages (test_stage.py)."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from zgcm.config.rl import RLStage, Rollout, Sampling
from zgcm.rl.cluster import short_directory
from zgcm.rl.rollout import engine_arguments, sampling_arguments
from zgcm.rl.trajectory import seed_of


def test_engine_arguments_of_the_published_stage() -> None:
    found = engine_arguments(Path("policy"), Rollout(), 42, cpu=False)
    assert found == {
        "model": "policy",
        "dtype": "bfloat16",
        "seed": 42,
        "max_model_len": 98304,
        "enforce_eager": False,
        "enable_prefix_caching": False,
        "disable_sliding_window": False,
        "tensor_parallel_size": 1,
        "gpu_memory_utilization": 0.88,
        "logprobs_mode": "processed_logprobs",
    }


def test_a_cpu_engine_never_chunks_a_prefill() -> None:
    found = engine_arguments(Path("policy"), Rollout(max_model_len=4096), 42, cpu=True)
    assert found["enable_chunked_prefill"] is False and found["max_num_batched_tokens"] >= 4096
    assert "gpu_memory_utilization" not in found


def test_sampling_arguments() -> None:
    found = sampling_arguments(Sampling(), 7, 1000)
    assert (found["n"], found["seed"], found["temperature"], found["top_k"]) == (8, 7, 1.0, 0)
    assert found["max_tokens"] == 65536
    assert sampling_arguments(Sampling(), 7, 60000)["max_tokens"] == 38304  # prompt and response: 98,304
    assert sampling_arguments(Sampling(greedy=True, top_k=5), 7, 1)["temperature"] == 0.0
    assert sampling_arguments(Sampling(top_k=5), 7, 1)["top_k"] == 5


def test_seeds_differ_by_every_part_and_stay() -> None:
    assert seed_of(42, "train", 0, 1) == seed_of(42, "train", 0, 1) < 2**63
    seeds = {seed_of(42, purpose, step, place) for purpose in "ab" for step in range(9) for place in range(9)}
    assert len(seeds) == 162


def test_ray_directory_is_short_enough_for_sockets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 60)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    assert short_directory() == "/tmp"
    monkeypatch.setattr("tempfile.tempdir", "/var/tmp")
    assert short_directory() == "/var/tmp"


STAGE = {
    "kind": "rl",
    "domain": "math",
    "steps": 1,
    "prompts": {"kind": "files", "train": "a", "valid": "b"},
}


def test_responses_two_updates_old_are_refused() -> None:
    assert [Rollout(max_head_offpolicyness=lag).max_head_offpolicyness for lag in (0, 1)] == [0, 1]
    with pytest.raises(ValidationError, match="max_head_offpolicyness"):
        RLStage.model_validate(STAGE | {"rollout": {"max_head_offpolicyness": 2}})
