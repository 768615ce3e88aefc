"""Whether the machines that a stage asks for hold what it starts there: ranks, engines, learner processes.

Each problem is `path: message`, as in `zgcm.config.crosscheck`, which lists them.
"""

from collections.abc import Iterator

from zgcm.config.model import Model
from zgcm.config.rl import RLStage
from zgcm.config.stages import TrainStage


def rank_problems(model: Model, at: str, stage: TrainStage) -> Iterator[str]:
    """Ranks must divide what they share: heads, layers, tokens, batches."""
    ranks, nodes = stage.parallel, stage.resources
    tp, pp, cp, world = ranks.tensor, ranks.pipeline, ranks.context, nodes.world_size
    groups = model.num_query_groups
    shared = ("num_attention_heads", "ffn_hidden_size", "hidden_size")
    yield from _tensor_parallel(model, f"{at}.parallel.tensor", tp, shared)
    if model.num_layers % pp:
        yield f"{at}.parallel.pipeline: {pp} does not divide model.num_layers {model.num_layers}"
    if cp > 1 and stage.seq_length % (2 * cp):
        yield (
            f"{at}.seq_length: {stage.seq_length} is not a multiple of 2 x parallel.context = {2 * cp} "
            "(each rank holds two chunks, so that causal work is even)"
        )
    if cp > 1 and ranks.context_comm == "a2a" and (max(groups // tp, 1) % cp):
        yield (
            f"{at}.parallel.context: all-to-all spreads the {max(groups // tp, 1)} key/value heads of a "
            f"tensor-parallel rank over {cp} ranks; use context_comm: p2p or fewer ranks"
        )
    if nodes.gpus_per_node and nodes.processes_per_node != nodes.gpus_per_node:
        yield (
            f"{at}.resources.processes_per_node: {nodes.processes_per_node} processes for "
            f"{nodes.gpus_per_node} GPUs; training runs one process a GPU"
        )
    if world % (tp * pp * cp):
        yield (
            f"{at}.resources: {world} processes are not a multiple of tensor x pipeline x context = "
            f"{tp} x {pp} x {cp}"
        )
        return
    replicas = stage.data_parallel_ranks
    if stage.global_batch_size % (stage.micro_batch_size * replicas):
        yield (
            f"{at}.global_batch_size: {stage.global_batch_size} is not a multiple of micro_batch_size x "
            f"data-parallel ranks = {stage.micro_batch_size} x {replicas}"
        )


def rl_machine_problems(model: Model, at: str, stage: RLStage) -> Iterator[str]:
    """Engines and learner processes must find their GPUs, and new weights their way between them."""
    asked, engines, tp = stage.resources, stage.rollout.engines, stage.rollout.tensor_parallel
    yield from _tensor_parallel(
        model, f"{at}.rollout.tensor_parallel", tp, ("num_attention_heads", "ffn_hidden_size")
    )
    if asked.gpus and engines * tp + stage.learner.processes > asked.gpus:
        yield (
            f"{at}.resources: {asked.gpus} GPUs, but rollout.engines x tensor_parallel + learner.processes = "
            f"{engines} x {tp} + {stage.learner.processes}"
        )
    if asked.gpus and engines > asked.gpus_per_node // tp * asked.nodes:
        yield (
            f"{at}.rollout.tensor_parallel: an engine lies on one node, and {asked.nodes} x "
            f"{asked.gpus_per_node} GPUs hold {asked.gpus_per_node // tp * asked.nodes} engines of {tp}, "
            f"not {engines}"
        )
    yield from _cores(at, stage)
    if asked.on_cpu and stage.learner.attention != "sdpa":
        yield (
            f"{at}.learner.attention: {stage.learner.attention} needs GPUs, and resources.gpus_per_node is "
            "0; use sdpa"
        )
    yield from _weight_transfer(at, stage)
    yield from _difficulty(at, stage)


def _cores(at: str, stage: RLStage) -> Iterator[str]:
    """Without GPUs, engines and learner processes take cores and memory."""
    asked, cores = stage.resources, stage.resources.nodes * stage.resources.cores_per_node
    if not asked.on_cpu:
        return
    for key, number in (
        ("rollout.engines", stage.rollout.engines),
        ("learner.processes", stage.learner.processes),
    ):
        if number > cores:
            yield (
                f"{at}.{key}: {number} on CPUs, and resources.nodes x processes_per_node x cpus_per_process "
                f"are {cores} cores"
            )
    cache, memory = stage.rollout.engines * (stage.rollout.kv_cache_mb or 0), asked.nodes * asked.mem_mb
    if cache > memory:
        yield (
            f"{at}.rollout.kv_cache_mb: {cache} MB of all engines, and resources.nodes x mem_mb are {memory}"
        )


def _weight_transfer(at: str, stage: RLStage) -> Iterator[str]:
    parallel = stage.rollout.tensor_parallel
    if stage.weight_transport() == "nccl" and stage.resources.on_cpu:
        yield (
            f"{at}.learner.weight_transfer: nccl moves weights between GPUs, and resources.gpus_per_node is "
            "0; use auto"
        )
    if stage.weight_transport() == "object_store" and parallel > 1:
        yield (
            f"{at}.learner.weight_transfer: object_store does not reach the processes of an engine with "
            f"rollout.tensor_parallel {parallel}; use nccl on GPUs, or tensor_parallel 1"
        )


def _difficulty(at: str, stage: RLStage) -> Iterator[str]:
    """Each job of it runs one engine, as the stage's own are, on one machine."""
    if stage.difficulty is None:
        return
    at += ".difficulty.resources"
    asked = stage.difficulty.resources
    wanted = 0 if stage.resources.on_cpu else stage.rollout.tensor_parallel
    if asked.nodes != 1:
        yield f"{at}.nodes: found {asked.nodes}; one job is one engine on one machine, use more `shards`"
    if asked.gpus_per_node != wanted:
        why = "the stage's engines run on CPUs" if wanted == 0 else "an engine takes rollout.tensor_parallel"
        yield f"{at}.gpus_per_node: found {asked.gpus_per_node}, expected {wanted}; {why}"


def _tensor_parallel(model: Model, at: str, size: int, shared: tuple[str, ...]) -> Iterator[str]:
    """`shared`: numbers of the model that `size` ranks split. Key/value heads are split or repeated."""
    for key in shared:
        if getattr(model, key) % size:
            yield f"{at}: {size} does not divide model.{key} {getattr(model, key)}"
    groups = model.num_query_groups
    if groups % size and size % groups:
        yield f"{at}: {size} and model.num_query_groups {groups} do not divide one another"
