"""What starts the trainer's processes, and what they inherit."""

import os
from pathlib import Path

import pytest

from zgcm.config.resources import Resources
from zgcm.errors import ZgcmError
from zgcm.slurm.launcher import SCRIPT
from zgcm.train.launch import ATTENTION_SWITCHES, command, environment

SETTINGS, LOGS = Path("run/trainer.json"), Path("run/logs/attempt_001")


def test_the_recipe_alone_chooses_the_attention(monkeypatch):
    for name in ATTENTION_SWITCHES:
        monkeypatch.setenv(name, "1")
    assert not set(ATTENTION_SWITCHES) & set(environment(Resources()))


def test_one_process_is_alone_whatever_the_shell_says(monkeypatch):
    """It would wait for the other seven for two hours."""
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"):
        monkeypatch.setenv(name, "8")
    assert environment(Resources())["WORLD_SIZE"] == "1"
    assert environment(Resources())["RANK"] == environment(Resources())["LOCAL_RANK"] == "0"


def test_the_users_environment_wins_over_our_wishes(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert environment(Resources())["OMP_NUM_THREADS"] == "7"


def test_one_process_needs_no_launcher():
    assert command(Resources(), SETTINGS, LOGS)[1:] == ["-m", "zgcm.train.entry", str(SETTINGS)]


def test_one_node_meets_at_a_port_of_its_own():
    torchrun = command(Resources(processes_per_node=2), SETTINGS, LOGS)
    assert torchrun[1:3] == ["-m", "zgcm.train.agent"]
    assert "--standalone" in torchrun and "--nproc-per-node=2" in torchrun


def test_several_nodes_are_started_by_the_jobs_launcher(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    needs = Resources(nodes=3, gpus_per_node=8, processes_per_node=8, cpus_per_process=4)
    launcher, *rest = command(needs, SETTINGS, LOGS)
    assert launcher == str(SCRIPT) and os.access(SCRIPT, os.X_OK)
    assert rest[:4] == ["3", "8", "32", str(LOGS)]
    assert "--nnodes=3" in rest and "--nproc-per-node=8" in rest
    assert not [option for option in rest if option.startswith(("--node-rank", "--master", "--standalone"))]


def test_several_nodes_without_a_job_are_refused(monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(ZgcmError, match=r"2 nodes are asked for.*salloc --nodes=2"):
        command(Resources(nodes=2), SETTINGS, LOGS)
