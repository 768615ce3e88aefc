"""What a transfer of weights decides and gathers, as far as one process without vLLM can tell."""

import weakref
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_learner import build

from zgcm import devices
from zgcm.config.rl import RLStage
from zgcm.errors import ZgcmError
from zgcm.rl import sync
from zgcm.rl.actors import require_same
from zgcm.rl.weights import checksum, describe, gathered, pack, published, unpack

STAGE = {
    "kind": "rl",
    "domain": "math",
    "steps": 1,
    "prompts": {"kind": "files", "train": "a", "valid": "b"},
}
ON_GPUS = STAGE | {"resources": {"gpus_per_node": 8}}


@pytest.mark.parametrize(
    ("stage", "transfer", "transport"),
    [
        (STAGE, "auto", "object_store"),
        (ON_GPUS, "auto", "nccl"),
        (ON_GPUS, "object_store", "object_store"),
        (ON_GPUS, "nccl", "nccl"),
    ],
)
def test_transport(stage: dict[str, object], transfer: str, transport: str) -> None:
    found = RLStage.model_validate(stage | {"learner": {"weight_transfer": transfer}})
    assert found.weight_transport() == transport


@given(st.integers(1, 64), st.integers(1, 8))
def test_every_process_of_every_engine_has_a_rank_of_its_own(engines: int, parallel: int) -> None:
    ranks = [
        sync.first_rank(engine, parallel) + rank for engine in range(engines) for rank in range(parallel)
    ]
    assert [0, *ranks] == list(range(sync.first_rank(engines, parallel)))  # 0: the learner


def test_a_machine_without_the_gpus_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    sync.require_machine(RLStage.model_validate(STAGE))
    monkeypatch.setattr(devices, "gpus", lambda: {"gpus": 4})
    with pytest.raises(ZgcmError, match="fewer GPUs") as caught:
        sync.require_machine(RLStage.model_validate(ON_GPUS))
    assert caught.value.where == "resources.gpus_per_node" and "4" in str(caught.value.found)
    monkeypatch.setattr(devices, "gpus", lambda: {"gpus": 8})
    with pytest.raises(ZgcmError, match="runs on CPUs only"):  # the laptop's environment
        sync.require_machine(RLStage.model_validate(ON_GPUS))


def test_a_missing_attention_kernel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    hopper = {"gpus": 8, "compute_capability": "9.0"}
    monkeypatch.setattr(devices, "gpus", lambda: hopper)
    monkeypatch.setattr(sync, "CPU_ONLY", "not-installed")
    monkeypatch.setattr(devices, "is_installed", lambda *modules: False)
    with pytest.raises(ZgcmError, match="attention kernel") as caught:
        sync.require_machine(RLStage.model_validate(ON_GPUS))
    assert caught.value.where == "learner.attention: flash_attention_3"
    assert caught.value.found == "FlashAttention-3 is not installed"
    with pytest.raises(ZgcmError, match="attention kernel") as caught:
        sync.require_attention("flash_attention_3", hopper | {"compute_capability": "8.0"})
    assert "needs compute capability 9.0, not 8.0" in caught.value.found
    sync.require_attention("sdpa", hopper)
    monkeypatch.setattr(devices, "is_installed", lambda *modules: True)
    sync.require_attention("flash_attention_2", hopper)


def test_a_vllm_that_cannot_receive_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ZgcmError, match="cannot receive") as caught:
        sync.require_vllm(None)
    assert caught.value.found == "not installed"
    for file in sync.NEEDED_OF_VLLM:
        with pytest.raises(ZgcmError, match="cannot receive") as caught:
            sync.require_vllm(tmp_path)
        assert caught.value.found == f"no {file}"
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    sync.require_vllm(tmp_path)


def test_other_bytes_on_an_engine_are_an_error_that_names_it() -> None:
    require_same(["a", "a"], "a", 3)
    with pytest.raises(ZgcmError, match="engine 1 holds other weights") as caught:
        require_same(["a", "b"], "a", 3)
    assert caught.value.where == "version 3"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_weights_sent_are_those_of_the_object_store(policy: Path, dtype: torch.dtype) -> None:
    """The same checksum, so the two ways can be compared."""
    model = build(policy).model
    assert checksum(gathered(model, dtype)) == checksum(unpack(pack(model.state_dict(), dtype)))
    described = describe(model, dtype)
    sent = [(name, list(tensor.shape), tensor.dtype) for name, tensor in gathered(model, dtype)]
    dtypes = [getattr(torch, name) for name in described["dtype_names"]]
    assert sent == list(zip(described["names"], described["shapes"], dtypes, strict=True))


def test_no_more_than_one_tensor_is_held(policy: Path) -> None:
    previous = None
    for _, tensor in gathered(build(policy).model, torch.bfloat16):
        assert previous is None or previous() is None
        previous = weakref.ref(tensor)
        del tensor


def test_tied_tensors_go_once() -> None:
    model = torch.nn.ModuleDict(
        {"embed": torch.nn.Embedding(4, 2), "head": torch.nn.Linear(2, 4, bias=False)}
    )
    model["head"].weight = model["embed"].weight
    assert list(published(model)) == ["embed.weight"]
