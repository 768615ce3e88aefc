"""Run the unmodified megatron-core training loop on a machine without a GPU, with gloo.

megatron-core calls the first device "cuda". `install()` answers those calls with the CPU: it must run
before megatron is imported, and does nothing where a GPU is present. It changes where tensors live and
what the device is asked, never what is computed. Written against torch 2.13 and megatron-core 0.19.2.
"""

import contextlib
import functools
import os
import sys
from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

CPU = torch.device("cpu")
FACTORIES = [
    *["tensor", "as_tensor", "zeros", "ones", "empty", "full", "arange", "rand", "randn", "randint"],
    *["linspace", "eye", "scalar_tensor", "zeros_like", "ones_like", "empty_like", "full_like"],
    *["rand_like", "randn_like", "empty_strided", "tril_indices"],
]
NOTHING_TO_DO = ["set_device", "synchronize", "empty_cache", "reset_peak_memory_stats", "set_stream"]
NO_MEMORY = ["memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"]


def install() -> bool:
    """Returns whether the layer is active. Idempotent."""
    if torch.cuda.is_available():
        return False
    if not hasattr(torch, "_zgcm_cpu_layer"):
        torch._zgcm_cpu_layer = True  # type: ignore[attr-defined]
        _tensors()
        _device_queries()
        _random_state()
        _gloo()
        _bf16_products()
        # Eager fusions: compiling them costs 41 s on the first step and needs a C++ compiler.
        torch.compile = lambda model=None, **_: model or (lambda function: function)  # type: ignore
        # Training never tokenizes; transformers is 40 % of a tiny stage's start.
        sys.modules.setdefault("transformers", None)  # type: ignore[arg-type]
        _megatron()
    return True


def is_cuda(device: Any) -> bool:
    return str(device).startswith("cuda") if isinstance(device, str | torch.device) else False


def _answer(value: Any) -> Callable[..., Any]:
    """A new function each time: torch's compiler refuses to know one function under two names."""
    return lambda *args, **kwargs: value


def _on_cpu(factory: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(factory)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if is_cuda(kwargs.get("device")):
            kwargs["device"] = CPU
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        return factory(*args, **kwargs)

    return wrapper


def _tensors() -> None:
    """Factories, moves, and the type names that optimizers dispatch on ("torch.cuda.FloatTensor")."""
    for name in FACTORIES:
        setattr(torch, name, _on_cpu(getattr(torch, name)))
    torch.Tensor.cuda = lambda self, *args, **kwargs: self  # type: ignore[method-assign]
    torch.Tensor.pin_memory = lambda self, *args, **kwargs: self  # type: ignore[method-assign]
    torch.nn.Module.cuda = lambda self, *args, **kwargs: self  # type: ignore[method-assign]
    to, type_name = torch.Tensor.to, torch.Tensor.type

    def to_cpu(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if args and is_cuda(args[0]):
            args = (CPU, *args[1:])
        if is_cuda(kwargs.get("device")):
            kwargs["device"] = CPU
        return to(self, *args, **kwargs)

    def as_cuda_type(self: torch.Tensor, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if dtype is None:
            return type_name(self).replace("torch.", "torch.cuda.")
        return type_name(self, dtype, *args, **kwargs)

    torch.Tensor.to = to_cpu  # type: ignore[method-assign, assignment]
    torch.Tensor.type = as_cuda_type  # type: ignore[method-assign, assignment]


class _Stream:
    """A stream or an event: on a CPU everything has already happened."""

    cuda_stream = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def wait_stream(self, *args: Any) -> None: ...

    wait = wait_event = record = record_event = synchronize = wait_stream

    @staticmethod
    def priority_range() -> tuple[int, int]:
        return (0, 0)

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: Any) -> float:
        return 0.0


def _bf16_products() -> None:
    """Multiply bf16 matrices in fp32 and round once, as bf16 hardware does.

    Products of bf16 numbers are exact in fp32, so only the order of summation can differ. On a CPU without
    bf16 instructions torch's own bf16 kernels are 7 to 40 times slower (512 x 768 x 128: 61 ms against 1.5).
    """
    matmul, addmm = torch.matmul, torch.addmm

    def matmul_in_fp32(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        if a.dtype != torch.bfloat16 or b.dtype != torch.bfloat16:
            return matmul(a, b)
        return matmul(a.float(), b.float()).bfloat16()

    def addmm_in_fp32(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, **factors: Any) -> torch.Tensor:
        if a.dtype != torch.bfloat16:
            return addmm(c, a, b, **factors)
        return addmm(c.float(), a.float(), b.float(), **factors).bfloat16()

    torch.matmul = matmul_in_fp32  # type: ignore[assignment]
    torch.Tensor.matmul = torch.Tensor.__matmul__ = matmul_in_fp32  # type: ignore
    torch.addmm = addmm_in_fp32  # type: ignore[assignment]


def _device_queries() -> None:
    """One device named cpu. `is_available` stays False; `device_count` 0 would skip the parallel state."""
    os.environ.pop("PYTORCH_NVML_BASED_CUDA_CHECK", None)  # vLLM sets it: is_available would count devices
    cuda: Any = torch.cuda
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cuda.device_count, cuda.current_device = _answer(1), _answer(CPU)
    for name in NOTHING_TO_DO:
        setattr(cuda, name, _answer(None))
    for name in NO_MEMORY:
        setattr(cuda, name, _answer(0))
    cuda.memory_stats = lambda *args, **kwargs: defaultdict(int)
    cuda.get_device_capability = _answer((0, 0))
    cuda.get_device_properties = _answer(
        SimpleNamespace(major=0, minor=0, name="cpu", total_memory=memory, multi_processor_count=1)
    )
    cuda.Stream = cuda.Event = _Stream
    cuda.current_stream = lambda *args, **kwargs: _Stream()
    cuda.stream = lambda *args, **kwargs: contextlib.nullcontext()
    for name in ("range_push", "range_pop", "mark"):
        setattr(cuda.nvtx, name, _answer(None))


def _random_state() -> None:
    """The device's generator is the CPU's default generator."""
    cuda: Any = torch.cuda
    cuda.get_rng_state = cuda.random.get_rng_state = lambda *args, **kwargs: torch.get_rng_state()
    cuda.set_rng_state = cuda.random.set_rng_state = lambda state, *args, **kwargs: torch.set_rng_state(state)
    cuda.manual_seed = cuda.random.manual_seed = lambda seed: torch.manual_seed(seed)


def _gloo() -> None:
    """gloo knows no device_ids, and gathers only shards of one size (layer-wise Muon's are uneven)."""
    dist: Any = torch.distributed
    barrier, all_gather = dist.barrier, dist.all_gather
    dist.barrier = lambda group=None, async_op=False, device_ids=None: barrier(group, async_op)

    def all_gather_uneven(
        shards: list[torch.Tensor], shard: torch.Tensor, group: Any = None, async_op: bool = False
    ) -> Any:
        if len({item.numel() for item in shards}) == 1:
            return all_gather(shards, shard, group=group, async_op=async_op)
        largest = max(item.numel() for item in shards)
        padded = shard.new_zeros(largest)
        padded[: shard.numel()] = shard.reshape(-1)
        gathered = [shard.new_empty(largest) for _ in shards]
        all_gather(gathered, padded, group=group)
        for target, source in zip(shards, gathered, strict=True):
            target.copy_(source[: target.numel()].view_as(target))
        return None

    dist.all_gather = all_gather_uneven


def _megatron() -> None:
    """The private names of megatron-core that insist on a device."""
    import megatron.core.tensor_parallel.random as random
    import megatron.training.initialize as initialize
    import megatron.training.training as training

    random._get_cuda_rng_state = lambda *args, **kwargs: torch.get_rng_state()
    random._set_cuda_rng_state = lambda state, *args, **kwargs: torch.set_rng_state(state)
    training.initialize_megatron = functools.partial(initialize.initialize_megatron, allow_no_cuda=True)
    training.set_jit_fusion_options = _answer(None)
