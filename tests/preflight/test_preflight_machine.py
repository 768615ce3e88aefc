"""What the preflight knows of a machine, and its parts `versions` and `kernels`."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.preflight.conftest import GPU, NO_GPU, ON_GPUS
from zgcm import devices
from zgcm.config.recipe import Recipe
from zgcm.preflight import kernels, machine, versions


def pretend_nvidia_smi(directory: Path, monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    program = directory / "nvidia-smi"
    program.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")


def test_gpus_are_counted_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_nvidia_smi(tmp_path, monkeypatch, *["NVIDIA H200, 9.0, 580.65"] * 8)
    expected = {"gpus": 8, "gpu": "NVIDIA H200", "compute_capability": "9.0", "driver": "580.65"}
    assert devices.gpus() == expected


def test_gpus_of_two_kinds_are_both_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_nvidia_smi(tmp_path, monkeypatch, "H200, 9.0, 580.65", "A100, 8.0, 580.65")
    found = devices.gpus()
    assert (found["gpu"], found["compute_capability"]) == ("A100 and H200", "8.0 and 9.0")


def test_a_driver_that_does_not_answer_is_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_nvidia_smi(tmp_path, monkeypatch, "NVIDIA-SMI has failed: it could not talk to the driver")
    assert devices.gpus() == NO_GPU


def test_the_machine_is_a_kind_not_a_host() -> None:
    found = machine.machine()
    assert found["processor"] and found["versions"]["megatron-core"]
    assert not {"host", "hostname"} & found.keys()
    assert found == machine.machine()


def test_versions_of_a_cpu_recipe(task) -> None:  # type: ignore[no-untyped-def]
    answer = versions.check(task())
    assert answer.status == "ran"
    assert f"torch {answer.figures['versions']['torch']}" in answer.line


def test_versions_fail_where_gpus_are_asked_for(task, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    answer = versions.check(task(stages={"one": ON_GPUS}))
    assert answer.status == "failed"
    assert "asks for 8 GPUs a node" in answer.reason
    assert "transformer-engine is not installed" in answer.reason


def test_kernels_do_not_apply_without_gpu_and_wish(task) -> None:  # type: ignore[no-untyped-def]
    assert kernels.check(task()).status == "not applicable"


def test_kernels_fail_where_fp8_is_asked_for(task) -> None:  # type: ignore[no-untyped-def]
    answer = kernels.check(task(stages={"one": ON_GPUS}))
    assert answer.status == "failed"
    assert "one ask for FP8, but there is no GPU" in answer.reason


def test_flash_attention_3_is_for_hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "is_installed", lambda *modules: True)
    assert devices.flash3(GPU) == ""
    assert "needs compute capability 9.0, not 10.0" in devices.flash3({**GPU, "compute_capability": "10.0"})


@pytest.mark.parametrize(("capability", "status"), [("9.0", "ran"), ("8.0", "failed")])
def test_the_attention_of_rls_learner_is_looked_at(
    capability: str,
    status: str,
    published: Recipe,
    task,  # type: ignore[no-untyped-def]
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of another environment's packages this one knows nothing."""
    monkeypatch.setattr(kernels, "gpus", lambda: {**GPU, "compute_capability": capability})
    stages = published.rl_stages()
    found = kernels.check(replace(task(), recipe=published.model_copy(update={"stages": stages})))
    assert found.status == status
    for name in stages if status == "failed" else ():
        asks = f"{name} asks for learner.attention: flash_attention_3, but FlashAttention-3 needs"
        assert asks in found.reason


def test_transformer_engine_gives_its_own_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "is_installed", lambda *modules: True)
    why = "compute capability 8.9 or higher required"
    monkeypatch.setattr(kernels, "_transformer_engine_fp8", lambda: (False, why))
    assert kernels.fp8(GPU) == why
    monkeypatch.setattr(kernels, "_transformer_engine_fp8", lambda: (True, ""))
    assert kernels.fp8(GPU) == ""


def test_a_half_installed_engine_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> tuple[bool, str]:
        raise ImportError("libcublas.so.13: cannot open shared object file")

    monkeypatch.setattr(kernels, "is_installed", lambda *modules: True)
    monkeypatch.setattr(kernels, "_transformer_engine_fp8", broken)
    assert "libcublas.so.13" in kernels.fp8(GPU)
