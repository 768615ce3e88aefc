"""Arithmetic and judgement of the all-reduce measurement, which itself runs in the whole run."""

import pytest

from tests.preflight.conftest import ON_GPUS, recipe
from zgcm.errors import ZgcmError
from zgcm.preflight import allreduce
from zgcm.preflight.allreduce_process import bandwidth

MACHINE = {"gpu": "H100", "driver": "580.65", "versions": {"torch": "2.13.0"}}
FOUND = {
    **{"backend": "nccl", "processes": 16, "wrong": [], "hosts": {"n1": MACHINE, "n2": MACHINE}},
    "bandwidth": [{"bytes": 1 << 20, "seconds": 1e-3, **bandwidth(1 << 20, 1e-3, 16)}],
}


def test_bus_bandwidth_is_what_a_ring_sends_over_each_link() -> None:
    # nccl-tests: busbw = algbw * 2 (n - 1) / n
    found = bandwidth(8_000_000_000, 2.0, 8)
    assert found["algorithm_gb_s"] == pytest.approx(4.0)
    assert found["bus_gb_s"] == pytest.approx(4.0 * 2 * 7 / 8)


def test_equal_nodes_pass_with_figures() -> None:
    answer = allreduce.judge(FOUND)
    assert answer.status == "ran"
    assert "nccl, 16 processes on 2 nodes" in answer.line
    assert answer.figures["hosts"] == ["n1", "n2"]


def test_a_wrong_sum_fails() -> None:
    answer = allreduce.judge({**FOUND, "wrong": [1 << 20]})
    assert answer.status == "failed"
    assert "wrong sum" in answer.reason


def test_a_node_with_other_versions_is_named() -> None:
    other = {**MACHINE, "versions": {"torch": "2.12.0"}}
    answer = allreduce.judge({**FOUND, "hosts": {"n1": MACHINE, "n2": other}})
    assert answer.status == "failed"
    assert answer.reason == "these nodes differ from n1 in n2: versions.torch"


def test_a_cpu_recipe_of_one_process_is_measured_with_two() -> None:
    assert allreduce.processes(recipe()).world_size == 2


def test_gpu_processes_are_those_of_the_widest_stage() -> None:
    wide = {**ON_GPUS, "resources": {"nodes": 3, "gpus_per_node": 8, "processes_per_node": 8}}
    small = recipe(stages={"one": {**wide, "global_batch_size": 48}})
    assert allreduce.processes(small).world_size == 24


def test_several_nodes_without_a_job_are_refused_at_once(task, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    wide = {**ON_GPUS, "resources": {"nodes": 3, "gpus_per_node": 8, "processes_per_node": 8}}
    stages = {name: {**wide, "global_batch_size": 48} for name in ("one", "two", "mid", "tuned")}
    with pytest.raises(ZgcmError, match=r"3 nodes are asked for.*without a Slurm job"):
        allreduce.check(task(stages=stages))


def test_one_gpu_alone_does_not_apply(task) -> None:  # type: ignore[no-untyped-def]
    alone = {**ON_GPUS, "resources": {"gpus_per_node": 1, "processes_per_node": 1}}
    stages = dict.fromkeys(("one", "two", "mid", "tuned"), alone)
    assert allreduce.check(task(stages=stages)).status == "not applicable"
