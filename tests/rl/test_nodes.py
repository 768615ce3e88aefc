"""Ray over several nodes: what is started where, and two nodes that are really one machine."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from bandit import TINY

from zgcm.config.load import load_recipe
from zgcm.config.resources import Resources
from zgcm.errors import ZgcmError
from zgcm.layout import Layout
from zgcm.rl import nodes
from zgcm.rl.prepare import prepare_run
from zgcm.slurm.launcher import SCRIPT

LAUNCHER = """
export PET_MASTER_ADDR=127.0.0.1 PET_MASTER_PORT={port}
PET_NODE_RANK=0 "$@" & first=$!
PET_NODE_RANK=1 "$@" & second=$!
trap 'kill -TERM $first $second' TERM
while kill -0 $first || kill -0 $second; do wait; done 2>/dev/null
"""


def test_the_launcher_of_training_starts_one_process_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    needs = Resources(nodes=3, gpus_per_node=8, processes_per_node=8, cpus_per_process=4)
    found = nodes.launch_command(needs, Path("logs/ray_nodes"), Path("logs/address"))
    assert found[:5] == [str(SCRIPT), "3", "8", "32", "logs/ray_nodes"]
    assert found[5:] == [sys.executable, "-m", "zgcm.rl.nodes", "logs/address", "8", "32"]


def test_the_first_node_is_the_head_and_the_others_join_it() -> None:
    head, worker = (nodes.start_command(rank, "10.0.0.1", "20007", "8", "32", "/tmp/zg") for rank in (0, 1))
    assert {"--head", "--port=20007", "--node-ip-address=10.0.0.1", "--temp-dir=/tmp/zg"} < set(head)
    assert "--address=10.0.0.1:20007" in worker and "--head" not in worker
    for command in (head, worker):
        assert {"--block", "--num-gpus=8", "--num-cpus=32"} < set(command)


def test_several_nodes_need_a_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    recipe = load_recipe([TINY])
    stage = recipe.rl_stages()["rl_math"].model_copy(update={"resources": Resources(nodes=2)})
    recipe.stages["rl_math"] = stage
    with pytest.raises(ZgcmError, match="without a Slurm job"):
        prepare_run(recipe, Layout(tmp_path), "rl_math")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    with pytest.raises(ZgcmError, match="initial policy is missing"):
        prepare_run(recipe, Layout(tmp_path), "rl_math")


def test_a_launcher_that_fails_is_told_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(nodes, "launch_command", lambda *_: ["sh", "-c", "echo no such partition; exit 3"])
    with (
        pytest.raises(ZgcmError, match="no such partition"),
        nodes.ray_nodes(Resources(nodes=2), tmp_path / "logs/ray_nodes", 60),
    ):
        pass


DRIVER = """
import os, sys, time
from pathlib import Path

import psutil
from zgcm.config.resources import Resources
from zgcm.errors import ZgcmError
from zgcm.rl import nodes

def launch(resources, logs, told):
    return ["bash", "-c", {launcher!r}, "launch", sys.executable, "-m", nodes.MODULE, str(told), "0", "1"]

nodes.launch_command = launch
with nodes.ray_nodes(Resources(nodes=2), Path("logs/ray_nodes"), 120) as address:
    import ray

    started = psutil.Process().children(recursive=True)
    ray.init(address=address, log_to_driver=False)
    nodes.wait_for_nodes(2, 120)
    assert ray.get(ray.remote(lambda: os.getpid()).remote(), timeout=120) != os.getpid()
    for process in started:  # as Slurm does at a preemption
        process.terminate()
    time.sleep(2)
    nodes.wait_for_nodes(2, 1)
    assert ray.get(ray.remote(lambda: os.getpid()).remote(), timeout=120) != os.getpid()
    try:
        nodes.wait_for_nodes(3, 1)
    except ZgcmError as error:
        assert (error.found, error.expected) == ("2 after 1 s", "3 (resources.nodes)"), error
    else:
        raise AssertionError("a third node?")
    ray.shutdown()
_, alive = psutil.wait_procs(started, timeout=30)
alive = [process for process in alive if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
assert not alive, alive  # a zombie has ended; whoever adopted it takes its time
assert not Path("logs/ray_nodes.address").exists()
# a stage that lost a process starts a second cluster
with nodes.ray_nodes(Resources(nodes=2), Path("logs/ray_nodes"), 120) as address:
    ray.init(address=address, log_to_driver=False)
    nodes.wait_for_nodes(2, 120)
    ray.shutdown()
"""


@pytest.mark.slow
def test_two_nodes_become_one_cluster_and_leave_nothing(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        launcher = LAUNCHER.format(port=probe.getsockname()[1])
    program = DRIVER.format(launcher=launcher)
    # the tests above left the variables of their own clusters behind, and ray reads some when it is imported
    plain = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, env=plain, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
