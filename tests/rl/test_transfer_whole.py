"""The whole transfer: Ray, FSDP2, vLLM's packing and loading; gloo stands where NCCL and CUDA streams would.

Learner processes and engines are those of a stage. What an engine holds afterwards must be what the way
through the object store gives it, bit for bit, and new tokens must come from the new weights.
"""

import sys
from pathlib import Path
from typing import Any

import gloo
import pytest
from test_learner import TINY, batch

from zgcm.config.rl import RLStage
from zgcm.rl import actors, sync, transfer
from zgcm.rl.cluster import ray_cluster
from zgcm.rl.trajectory import Request, Trajectory

pytestmark = pytest.mark.long

ENGINES, LEARNERS = 2, 2
BUCKET = 100_000
"""Bytes: the policy is sent in several buckets, and its embedding exceeds one."""


class Engine(actors.EngineActor):
    def __init__(self, *arguments: Any) -> None:
        gloo.install()
        transfer.BUCKET_BYTES = BUCKET
        super().__init__(*arguments)

    def group(self) -> tuple[int, int, int, int]:
        def seen(worker: Any) -> tuple[int, int, int, int]:
            found = worker.weight_transfer_engine.model_update_group
            return found.rank, found.world_size, found.broadcasts, found.largest

        return self.engine.llm.collective_rpc(seen)[0]


class Learner(actors.LearnerActor):
    def join_transfer(self, *arguments: Any) -> Any:
        gloo.install()
        return super().join_transfer(*arguments)

    def send(self) -> str:
        import torch

        transfer.BUCKET_BYTES = BUCKET
        torch.accelerator.synchronize = lambda *_: None
        return super().send()


def stage(transport: str) -> RLStage:
    rollout = {"dtype": "float32", "max_model_len": 128, "engines": ENGINES, "kv_cache_mb": 16}
    sampling = {"max_new_tokens": 8, "max_tokens": 64, "n_samples": 2}
    return RLStage.model_validate(
        {
            **{"kind": "rl", "domain": "math", "steps": 1},
            "prompts": {"kind": "files", "train": "a", "valid": "b"},
            "rollout": rollout | {"prefix_caching": True, "enforce_eager": True, "sampling": sampling},
            "learner": TINY | {"processes": LEARNERS, "lr": 0.05, "weight_transfer": transport},
        }
    )


@pytest.fixture
def pair(policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(actors, "EngineActor", Engine)
    monkeypatch.setattr(actors, "LearnerActor", Learner)
    with ray_cluster(cpus=ENGINES + LEARNERS, gpus=0, logs=tmp_path / "ray"):
        from ray import cloudpickle

        for name in (__name__, "gloo", "test_learner"):  # Ray's workers cannot import a test
            cloudpickle.register_pickle_by_value(sys.modules[name])
        rollouts = actors.Rollouts(policy, stage("nccl"), cpu=True)
        learners = actors.Learners(policy, stage("nccl"), cpu=True)
        learners.build()
        learners.wait_ready()
        rollouts.wait_ready()
        yield learners, rollouts


def test_engines_get_the_learners_weights(pair: Any) -> None:
    import ray

    learners, rollouts = pair
    by_nccl = sync.weight_sync(stage("nccl"), learners, rollouts)
    through_store = sync.weight_sync(stage("object_store"), learners, rollouts)
    requests = [Request([7, 8, 9, number], number) for number in range(4)]
    sampling = stage("nccl").rollout.sampling
    old = rollouts.generate(requests, sampling)
    first = by_nccl(0)
    assert rollouts.generate(requests, sampling) == old  # the weights that the engines were built with
    learners.step(batch(), 0, 1)
    second = by_nccl(1)
    assert second != first
    new = rollouts.generate(requests, sampling)
    assert {response.version for group in new for response in group} == {1}
    gap = learners.compare(
        [
            Trajectory(request.prompt_ids, response.token_ids, response.logprobs, 0.0)
            for request, group in zip(requests, new, strict=True)
            for response in group
        ]
    ).gap_max
    assert gap < 1e-4
    assert through_store(1) == second
    assert rollouts.generate(requests, sampling) == new != old
    seen = ray.get([engine.group.remote() for engine in rollouts.engines])
    assert [(rank, world) for rank, world, _, _ in seen] == [(1, 3), (2, 3)]
    _, _, broadcasts, largest = seen[0]
    assert broadcasts >= 6 and largest < 3 * BUCKET
