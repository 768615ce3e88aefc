"""Rollout engines and learner processes as Ray actors, behind plain calls with deadlines.

A lost process or a stuck collective becomes an error, never a hang. The stage answers a lost process with a
new start of all of them (zgcm.rl.restarts), the workflow a deadline with the same command again; both go on
from the last recover point. The actors import torch and vLLM, this module does not.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zgcm import stopping
from zgcm.config.rl import RLStage, Sampling
from zgcm.errors import ZgcmError
from zgcm.rl.trajectory import Comparison, Request, Response, Trajectory

if TYPE_CHECKING:
    from zgcm.rl.weights import Description

START_SECONDS = 120
"""To bring the learner's process group up, once all processes are there."""
DEATH_SECONDS = 10.0
"""After one process's error, to hear of the death of another one that caused it: gloo tells its peers at
once, Ray's own look at its processes takes up to a few seconds."""
SETUP, SYNC = "rollout.setup_timeout", "rollout.sync_timeout"
LOST_BEHIND = ("EngineDeadError", "DistBackendError", "DistNetworkError", "RuntimeError: Executor failed.")
"""How the error of a living actor begins when it lost a worker of vLLM or a peer in NCCL."""


class ActorLost(ZgcmError):
    """A process died or cannot be reached, so the error is the machine's and may not come again."""


class EngineActor:
    def __init__(self, policy: str, stage: RLStage, cpu: bool, version: int) -> None:
        from zgcm.rl.rollout import Engine

        receives = stage.weight_transport() == "nccl"
        self.engine = Engine(Path(policy), stage.rollout, stage.seed, cpu=cpu, receives=receives)
        self.engine.version = version

    def ready(self) -> None:
        """Answers once the constructor is through."""

    def generate(self, requests: list[Request], sampling: Sampling) -> list[list[Response]]:
        return self.engine.generate(requests, sampling)

    def version(self) -> int:
        return self.engine.version

    def load(self, payload: Any, version: int) -> str:
        return self.engine.load(payload, version)

    def join_transfer(self, address: str, world_size: int, first_rank: int) -> None:
        self.engine.join_transfer(address, world_size, first_rank)

    def receive(self, description: "Description", version: int) -> str:
        return self.engine.receive(description, version)


class LearnerActor:
    def __init__(self, rank: int, world: int) -> None:
        self.rank, self.world = rank, world
        self.store: Any = None
        self.reserved: Any = None
        self.transfer_group: Any = None

    def serve(self) -> str:
        """host:port of the store at which the learner's processes meet. It is bound already, so that no other
        process takes the port meanwhile (Ray's own open hundreds)."""
        import ray
        from torch.distributed import TCPStore

        host = ray.util.get_node_ip_address()
        self.store = TCPStore(host, 0, self.world, is_master=True, wait_for_workers=False)
        return f"{host}:{self.store.port}"

    def address(self) -> str:
        """host:port for the group of a weight transfer, reserved until `join_transfer`."""
        import ray

        from zgcm.rl import transfer

        self.reserved = transfer.reserve(ray.util.get_node_ip_address())
        host, port = self.reserved.getsockname()
        return f"{host}:{port}"

    def build(self, address: str, policy: str, stage: RLStage) -> None:
        import torch
        from torch.distributed import TCPStore

        from zgcm.rl.learner import Learner

        torch.set_num_threads(1)  # sums in one order, so results do not depend on the machine's cores
        if self.world > 1:
            host, _, port = address.rpartition(":")
            torch.distributed.init_process_group(
                "nccl" if torch.cuda.is_available() else "gloo",
                store=self.store or TCPStore(host, int(port), self.world),
                rank=self.rank,
                world_size=self.world,
            )
        temperature = stage.rollout.sampling.temperature
        self.learner = Learner(
            Path(policy), stage.learner, temperature=temperature, rank=self.rank, world=self.world
        )

    def step(self, batch: list[Trajectory], step: int, total_steps: int) -> dict[str, float]:
        return self.learner.step(batch, step, total_steps)

    def compare(self, batch: list[Trajectory]) -> Comparison:
        return self.learner.compare(batch)

    def weights(self) -> tuple[Any, str]:
        payload, digest = self.learner.weights()
        return (payload, digest) if self.rank == 0 else (None, digest)

    def join_transfer(self, world_size: int) -> "Description":
        from zgcm.rl import transfer
        from zgcm.rl.weights import describe

        self.transfer_group = transfer.join(self.reserved, world_size)
        return describe(self.learner.model, self.learner.dtype)

    def send(self) -> str:
        from zgcm.rl import transfer
        from zgcm.rl.weights import gathered

        return transfer.send(gathered(self.learner.model, self.learner.dtype), self.transfer_group)

    def save_policy(self, directory: str) -> str:
        return self.learner.save_policy(Path(directory))

    def save_state(self, directory: str) -> None:
        self.learner.save_state(Path(directory))

    def load_state(self, directory: str) -> None:
        self.learner.load_state(Path(directory))


class Rollouts:
    """All engines. Which engine answers a prompt does not change the answer."""

    def __init__(self, policy: Path, stage: RLStage, *, cpu: bool, version: int = 0) -> None:
        import ray

        from zgcm.rl.environment import CPU_ENVIRONMENT, ENVIRONMENT

        env = ENVIRONMENT | (CPU_ENVIRONMENT if cpu else {})
        actor: Any = ray.remote(EngineActor)
        gpus = 0 if cpu else stage.rollout.tensor_parallel
        options = {"num_cpus": 0, "num_gpus": gpus, "runtime_env": {"env_vars": env}}
        self.settings = stage.rollout
        self.engines = [
            actor.options(**options).remote(str(policy), stage, cpu, version)
            for _ in range(stage.rollout.engines)
        ]

    def wait_ready(self) -> None:
        calls = [engine.ready.remote() for engine in self.engines]
        wait_starting(calls, self.settings.setup_timeout, "Starting the rollout engines", SETUP)

    def start(self, requests: Sequence[Request], sampling: Sampling) -> list[Any]:
        """Begin to answer; `collect` returns the answers."""
        count = len(self.engines)
        return [
            engine.generate.remote(list(requests[place::count]), sampling)
            for place, engine in enumerate(self.engines)
        ]

    def collect(self, calls: list[Any]) -> list[list[Response]]:
        """Responses of each request, in the order of the requests."""
        parts = wait(calls, self.settings.request_timeout, "Sampling responses", "rollout.request_timeout")
        total = sum(map(len, parts))
        return [parts[index % len(parts)][index // len(parts)] for index in range(total)]

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Response]]:
        return self.collect(self.start(requests, sampling))

    def versions(self) -> list[int]:
        """That each engine holds."""
        return list(
            wait(
                [engine.version.remote() for engine in self.engines],
                self.settings.sync_timeout,
                "Asking the engines for their version",
                SYNC,
            )
        )

    def load(self, payload: Any, digest: str, version: int) -> None:
        """Give every engine new weights. Raises ZgcmError when one got other bytes."""
        calls = [engine.load.remote(payload, version) for engine in self.engines]
        found = wait(calls, self.settings.sync_timeout, "Loading new weights", SYNC)
        require_same(found, digest, version)


class Learners:
    """All learner processes; each gets every call, the first one's answer counts."""

    def __init__(self, policy: Path, stage: RLStage, *, cpu: bool) -> None:
        import ray

        from zgcm.rl.environment import LEARNER_ENVIRONMENT

        world = stage.learner.processes
        actor: Any = ray.remote(LearnerActor)
        options = {
            "num_cpus": 0,
            "num_gpus": 0 if cpu else 1,
            "runtime_env": {"env_vars": LEARNER_ENVIRONMENT},
        }
        self.stage = stage
        self.processes = [actor.options(**options).remote(rank, world) for rank in range(world)]
        self._policy = str(policy)
        self._building: list[Any] = []

    def build(self) -> None:
        """Begin to load the policy; `wait_ready` waits for it."""
        address = ""
        if len(self.processes) > 1:
            address = wait_starting(self.processes[0].serve.remote(), START_SECONDS, "Starting the learner")
        self._building = [
            process.build.remote(address, self._policy, self.stage) for process in self.processes
        ]

    def wait_ready(self) -> None:
        wait_starting(self._building, self.stage.rollout.setup_timeout, "Starting the learner", SETUP)

    def step(self, batch: Sequence[Trajectory], step: int, total_steps: int) -> dict[str, float]:
        return self._all("step", "A learner step", list(batch), step, total_steps)

    def compare(self, batch: Sequence[Trajectory]) -> Comparison:
        return self._all("compare", "Recomputing log-probabilities", list(batch))

    def weights(self) -> tuple[Any, str]:
        """A reference to the weights, which stay in the object store, and their checksum."""
        calls = [process.weights.options(num_returns=2).remote() for process in self.processes]
        digests = [digest for _, digest in calls]
        found = wait(digests, self.stage.rollout.sync_timeout, "Collecting the weights", SYNC)
        return calls[0][0], found[0]

    def save_policy(self, directory: Path) -> str:
        return self._all("save_policy", "Saving the policy", str(directory))

    def save_state(self, directory: Path) -> None:
        self._all("save_state", "Saving a recover point", str(directory))

    def load_state(self, directory: Path) -> None:
        self._all("load_state", "Loading a recover point", str(directory))

    def _all(self, method: str, what: str, *arguments: Any) -> Any:
        import ray

        shared = [ray.put(argument) for argument in arguments]
        calls = [getattr(process, method).remote(*shared) for process in self.processes]
        return wait(calls, self.stage.learner.timeout, what, "learner.timeout")[0]


def require_same(found: Sequence[str], digest: str, version: int) -> None:
    """Raises ZgcmError when an engine's checksum is not the learner's."""
    for number, checksum in enumerate(found):
        if checksum != digest:
            raise ZgcmError(
                f"Rollout engine {number} holds other weights than the learner",
                where=f"version {version}",
                found=f"checksum {checksum}",
                expected=digest,
            )


def wait_starting(calls: Any, seconds: float, what: str, key: str = "") -> Any:
    """As `wait`, before there is anything to lose: raises Interrupted as soon as a stop was asked."""
    return wait(calls, seconds, what, key, look_every=stopping.LOOK_AGAIN)


def wait(calls: Any, seconds: float, what: str, key: str = "", *, look_every: float = 0.0) -> Any:
    """Results of Ray calls. Raises ZgcmError: the actor's own, or one that says what was too late; ActorLost
    when a process is gone. `key`: where the recipe gives the seconds. `look_every`: seconds between two looks
    for a request to stop; 0: none."""
    from ray.exceptions import GetTimeoutError, RayError, RayTaskError

    try:
        return _get(calls, seconds, look_every)
    except SystemExit as error:
        stopping.end_if_asked()  # Ray makes exit code 1 of what a handler of signals raises
        raise error
    except GetTimeoutError as error:
        raise ZgcmError(
            f"{what} took too long",
            where=key,
            found=f"more than {seconds:g} s",
            hint="the same command continues from the last recover point",
        ) from error
    except RayTaskError as error:
        if isinstance(error.cause, ZgcmError):
            raise error.cause from error
        found = f"{type(error.cause).__name__}: {error.cause}"
        if isinstance(error.cause, RayError) or found.startswith(LOST_BEHIND):
            raise lost(what, found) from error
        if death := death_among(calls if isinstance(calls, list) else [calls]):
            raise lost(what, cause_of_death(death)) from error
        raise ZgcmError(f"{what} failed", found=found) from error
    except RayError as error:
        found = cause_of_death(str(error))
        if CONSTRUCTOR in str(error):  # it would raise the same again
            raise ZgcmError(f"{what} failed: its process died", found=found, hint=LOGS) from error
        raise lost(what, found) from error


def _get(calls: Any, seconds: float, look_every: float) -> Any:
    import ray
    from ray.exceptions import GetTimeoutError

    end = time.monotonic() + seconds
    while look_every:
        stopping.end_if_asked()
        left = end - time.monotonic()
        try:
            return ray.get(calls, timeout=max(0.0, min(left, look_every)))
        except GetTimeoutError:
            if left <= look_every:
                raise
    return ray.get(calls, timeout=seconds)


LOGS = "logs/ray of the run says more; the same command continues from the last recover point"
CONSTRUCTOR = "creation task"
"""In Ray's message when an actor's constructor raised."""


def lost(what: str, found: str) -> ActorLost:
    return ActorLost(f"{what} failed: its process died", found=found, hint=LOGS)


def death_among(calls: list[Any]) -> str:
    """What Ray says of a process that died during one of these calls; empty when none did. One rank's death
    reaches the others as an error of their collective, often before Ray knows of it."""
    import ray
    from ray.exceptions import RayActorError, RayError

    done, _ = ray.wait(calls, num_returns=len(calls), timeout=DEATH_SECONDS, fetch_local=False)
    for call in done:
        try:
            ray.get(call)
        except RayActorError as error:
            return str(error)
        except RayError:
            continue  # another one that only noticed
    return ""


def cause_of_death(message: str) -> str:
    """What follows the traceback where a constructor failed, which is its error; else the first line."""
    lines = message.strip().splitlines() or [""]
    if CONSTRUCTOR not in lines[0]:
        return lines[0]
    traceback_end = max(index for index, line in enumerate(lines) if index == 0 or line.startswith("  "))
    return "\n".join(lines[traceback_end + 1 :]) or lines[0]
