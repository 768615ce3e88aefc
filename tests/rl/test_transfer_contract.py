"""The installed vLLM has every class, function, field and parameter that a transfer of weights uses.

Our own code runs over stand-ins that have vLLM's signatures and refuse any other call, so a changed pin fails
here, and not on the first GPU.
"""

import contextlib
import inspect
import socket
import struct
from types import SimpleNamespace
from typing import Any
from unittest.mock import create_autospec

import pytest
import torch

from zgcm.config.rl import Rollout
from zgcm.rl import rollout, sync, transfer
from zgcm.rl.weights import Description

pytestmark = pytest.mark.slow

IP_LOCAL_PORT_RANGE = 51
DESCRIPTION: Description = {"names": ["a", "b"], "dtype_names": ["bfloat16"] * 2, "shapes": [[2, 3], [4]]}


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Our engine on an LLM that takes vLLM's calls only."""
    monkeypatch.setenv("VLLM_PLUGINS", "zgcm")
    import vllm

    llm = create_autospec(vllm.LLM, instance=True)
    made = rollout.Engine.__new__(rollout.Engine)
    made.llm = llm
    return made


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """(host, port, rank, world size) of every process that joins a group."""
    from vllm.distributed.weight_transfer import nccl_common

    seen: list[tuple[Any, ...]] = []
    signature = inspect.signature(nccl_common.stateless_init_process_group)

    def join(*arguments: Any, **named: Any) -> None:
        bound = signature.bind(*arguments, **named).arguments
        seen.append(tuple(bound[name] for name in ("master_address", "master_port", "rank", "world_size")))

    monkeypatch.setattr(nccl_common, "stateless_init_process_group", join)
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 0)
    return seen


def test_ranks_of_learner_and_engines(engine: Any, joined: list[tuple[Any, ...]]) -> None:
    """By vLLM's own arithmetic: two engines of two GPUs each."""
    from vllm.distributed.weight_transfer.nccl_common import worker_init_process_group
    from vllm.distributed.weight_transfer.nccl_engine import NCCLWeightTransferInitInfo

    world = sync.first_rank(2, 2)
    reserved = transfer.reserve("127.0.0.1")
    _, port = reserved.getsockname()
    transfer.join(reserved, world)
    for number in range(2):
        engine.join_transfer(f"127.0.0.1:{port}", world, sync.first_rank(number, 2))
        request = engine.llm.init_weight_transfer_engine.call_args.args[0]
        assert list(request) == ["init_info"]
        for rank in range(2):
            place: Any = SimpleNamespace(data_parallel_index=0, world_size=2, rank=rank)
            worker_init_process_group(NCCLWeightTransferInitInfo(**request["init_info"]), place)
    assert joined == [("127.0.0.1", port, rank, 5) for rank in range(5)]


def test_a_reserved_port_goes_to_nobody_else() -> None:
    reserved = transfer.reserve("127.0.0.1")
    port = reserved.getsockname()[1]
    for reuse in (0, 1):
        assert port not in every_free_port(port - 2, port + 2, reuse)
    reserved.close()
    assert port in every_free_port(port - 2, port + 2, 0)


def test_vllm_listens_at_a_reserved_port() -> None:
    from vllm.distributed.utils import StatelessProcessGroup

    with transfer.reserve("127.0.0.1") as reserved:
        host, port = reserved.getsockname()
        group = StatelessProcessGroup.create(host, port, rank=0, world_size=1)
        assert (group.store.host, group.store.port) == (host, port)
        socket.create_connection((host, port), timeout=10).close()


def every_free_port(first: int, last: int, reuse: int) -> set[int]:
    """All that the system gives to who asks for any of these, until there are none left."""
    found, bounds = set(), struct.pack("I", last << 16 | first)
    with contextlib.ExitStack() as stack:
        while True:
            other = stack.enter_context(socket.socket())
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
            try:
                other.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, bounds)
            except OSError:
                pytest.skip("only IP_LOCAL_PORT_RANGE (Linux 6.3) makes the system give every port there is")
            try:
                other.bind(("", 0))
            except OSError:
                return found
            found.add(other.getsockname()[1])


def test_engine_arguments_are_known(engine: Any) -> None:
    import dataclasses
    from pathlib import Path

    from vllm.config import WeightTransferConfig
    from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.worker.gpu_worker import Worker

    from zgcm.rl import receiver

    arguments = rollout.engine_arguments(Path("policy"), Rollout(), 0, cpu=False, receives=True)
    assert set(arguments) <= {field.name for field in dataclasses.fields(EngineArgs)}
    backend = WeightTransferConfig(**arguments["weight_transfer_config"]).backend
    assert WeightTransferEngineFactory._registry[backend]() is receiver.Receiver
    module, _, name = arguments["worker_extension_cls"].rpartition(".")
    assert (module, getattr(receiver, name)) == (receiver.__name__, receiver.WorkerExtension)
    # vLLM refuses an extension that hides a method of its worker's
    assert not [item for item in vars(receiver.WorkerExtension) if item[:2] != "__" and hasattr(Worker, item)]
    loading = inspect.getsource(Worker.load_model)
    assert "self.weight_transfer_engine = WeightTransferEngineFactory.create_engine(" in loading


def test_calls_of_an_update(engine: Any) -> None:
    from vllm.distributed.weight_transfer.nccl_engine import NCCLWeightTransferUpdateInfo

    engine.llm.collective_rpc.return_value = ["sum", "sum"]
    assert (engine.receive(DESCRIPTION, 7), engine.version) == ("sum", 7)
    calls = [call[0] for call in engine.llm.method_calls]
    assert calls == [
        *("start_weight_update", "update_weights", "finish_weight_update"),
        *("reset_prefix_cache", "collective_rpc"),
    ]
    request = engine.llm.update_weights.call_args.args[0]
    NCCLWeightTransferUpdateInfo(**request["update_info"])


def test_packing_and_unpacking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both halves with the same size and number of buckets."""
    from vllm.distributed.device_communicators.pynccl import PyNcclCommunicator
    from vllm.distributed.weight_transfer import nccl_engine, packed_tensor

    from zgcm.rl import receiver

    monkeypatch.setattr(torch.accelerator, "synchronize", lambda: None)
    pack = create_autospec(packed_tensor.packed_nccl_broadcast_producer)
    unpack = create_autospec(packed_tensor.packed_nccl_broadcast_consumer)
    monkeypatch.setattr(packed_tensor, "packed_nccl_broadcast_producer", pack)
    monkeypatch.setattr(receiver, "packed_nccl_broadcast_consumer", unpack)
    tensors = [("a", torch.zeros(2, 3)), ("b", torch.zeros(4))]
    transfer.send(iter(tensors), group=create_autospec(PyNcclCommunicator, instance=True))
    engine = receiver.Receiver.__new__(receiver.Receiver)
    engine.device, engine.model_update_group = torch.device("cpu"), None
    engine.receive_weights(nccl_engine.NCCLWeightTransferUpdateInfo(**DESCRIPTION))
    sent, got = pack.call_args.kwargs, unpack.call_args.kwargs
    for name in ("src", "buffer_size_bytes", "num_buffers"):
        assert sent[name] == got[name]
    assert list(got["iterator"]) == [("a", ([2, 3], torch.bfloat16)), ("b", ([4], torch.bfloat16))]
    assert [sent["post_iter_func"](item) for item in tensors] == [tensor for _, tensor in tensors]
    theirs = nccl_engine.NCCLWeightTransferEngine.receive_weights
    assert list(inspect.signature(theirs).parameters) == ["self", "update_info"]
    assert list(inspect.signature(PyNcclCommunicator.broadcast).parameters)[1:3] == ["tensor", "src"]
