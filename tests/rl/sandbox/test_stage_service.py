"""The sandbox as part of a stage: attested first, started anew when it dies, gone when the stage is."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from zgcm.config.rl import Sandbox
from zgcm.errors import ZgcmError
from zgcm.io import sha256_bytes, sha256_file
from zgcm.rl.formats import write_assets
from zgcm.rl.sandbox import service as service_module
from zgcm.rl.sandbox import token
from zgcm.rl.sandbox.client import Client, SandboxRefused, SandboxUnavailable
from zgcm.rl.sandbox.service import RESTARTS, Service, check_attested, service

PACKED = json.dumps(["assert f(1) == 2"]).encode()
BODY = {
    "program": "def f(x): return x + 1",
    "asset_hash": sha256_bytes(PACKED),
    "task_type": "code",
    "selection_seed": "s",
    "max_execution_time": 10,
}
SETTINGS = Sandbox(slots=1, memory_mb=512)


@pytest.fixture(scope="module")
def assets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tests")
    write_assets(root, {sha256_bytes(PACKED): PACKED})
    return root


@pytest.fixture(scope="module")
def own(assets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(SETTINGS, assets, tmp_path_factory.mktemp("logs") / "sandbox.log") as made:
        yield made


class Says:
    """A client of a service that says this of itself."""

    url = "http://127.0.0.1:1"

    def __init__(self, **health: Any) -> None:
        self.said = health
        self.asked = 0

    def health(self) -> dict[str, Any]:
        self.asked += 1
        return self.said

    def verify(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"score": 1.0}


GOOD = {
    "status": "healthy",
    "attestation": {"seccomp": True, "cgroup": False},
    "limits": {"memory_bytes": 512 << 20},
}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"status": "draining"}, "draining"),
        ({"attestation": {"seccomp": True, "network_blocked": False}}, "network_blocked"),
        ({"attestation": {"seccomp": "yes"}}, "seccomp"),
        ({"attestation": {}}, "0 properties"),
        ({"attestation": None}, "0 properties"),
        ({"limits": {"memory_bytes": 1 << 30}}, "another limit of memory"),
        ({"limits": None}, "another limit of memory"),
        ({"asset_manifest_sha256": "0" * 64}, "other tests"),
        ({}, "other tests"),  # it does not say which
    ],
)
def test_what_a_service_does_not_prove_does_not_hold(
    assets: Path, change: dict[str, Any], named: str
) -> None:
    manifest = sha256_file(assets / "manifest.json")
    check_attested(Says(**GOOD, asset_manifest_sha256=manifest), 512, assets)  # type: ignore[arg-type]
    check_attested(Says(**GOOD), 512, None)  # type: ignore[arg-type]
    with pytest.raises(ZgcmError, match=named):
        check_attested(Says(**{**GOOD, **change}), 512, assets)  # type: ignore[arg-type]


def test_a_service_elsewhere_is_attested_again_while_the_stage_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Service(SETTINGS.model_copy(update={"url": Says.url}), None, tmp_path / "log")
    says = Says(**GOOD)
    made.client = says  # type: ignore[assignment]
    assert made.verify({}) == {"score": 1.0} and made.verify({}) == {"score": 1.0}
    assert says.asked == 1, "not for every program"
    says.said = {**GOOD, "attestation": {"seccomp": False}}
    assert made.verify({}) == {"score": 1.0}
    monkeypatch.setattr(service_module, "CHECK_SECONDS", 0.0)
    with pytest.raises(ZgcmError, match="seccomp"):
        made.verify({})


def test_one_that_does_not_start_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(ZgcmError, match=r"does not start.*manifest.json"),
        service(SETTINGS, tmp_path, tmp_path / "log"),
    ):
        pass


@pytest.mark.slow
def test_it_judges_and_leaves_signals_to_its_stage(own: Service) -> None:
    assert own.verify(BODY)["score"] == 1.0
    assert own.client.health()["limits"]["memory_bytes"] == 512 << 20
    assert own.process is not None
    for number in (signal.SIGINT, signal.SIGTERM):  # a scheduler's, to every process of the job
        own.process.send_signal(number)
    time.sleep(0.5)
    assert own.verify(BODY)["score"] == 1.0 and own.process.poll() is None


@pytest.mark.slow
def test_another_stage_may_ask_it_with_its_token(
    own: Service, assets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_text(own.client.token)
    remote = SETTINGS.model_copy(update={"url": own.client.url, "token_file": str(file)})
    with service(remote, None, tmp_path / "log") as made:
        assert made.verify(BODY)["score"] == 1.0 and made.process is None
    assert own.process is not None and own.process.poll() is None, "it was not this stage's to stop"
    monkeypatch.setenv(token.VARIABLE, "x" * 32)
    with (
        pytest.raises(SandboxRefused, match="refuses the token"),
        service(remote.model_copy(update={"token_file": None}), None, tmp_path / "log"),
    ):
        pass


@pytest.mark.slow
def test_a_dead_service_is_started_anew_a_few_times(assets: Path, tmp_path: Path) -> None:
    with service(SETTINGS, assets, tmp_path / "log") as own:
        for restarts in range(RESTARTS + 1):
            own.client = replace(own.client, pauses=(0.1,))  # each start makes another client
            assert own.process is not None
            own.process.kill()
            own.process.wait()
            if restarts == RESTARTS:
                with pytest.raises(SandboxUnavailable, match="does not answer"):
                    own.verify(BODY)
            else:
                assert own.verify(BODY)["score"] == 1.0
        assert own.take_retries() == RESTARTS + 1 and own.take_retries() == 0


HOLDER = """
import sys, time
from pathlib import Path
from zgcm.config.rl import Sandbox
from zgcm.rl.sandbox.service import service
with service(Sandbox(slots=1), Path(sys.argv[1]), Path(sys.argv[2])) as made:
    print(made.process.pid, flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_it_ends_with_a_stage_that_was_killed(assets: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(assets), str(tmp_path / "log")]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    pid = int(holder.stdout.readline())
    assert "zgcm.cli" in Path(f"/proc/{pid}/cmdline").read_text()
    os.kill(holder.pid, signal.SIGKILL)
    holder.communicate()
    end = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists() and "zgcm.cli" in Path(f"/proc/{pid}/cmdline").read_text():
        assert time.monotonic() < end, "the service outlived its stage"
        time.sleep(0.1)


def test_one_that_is_not_reachable_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SandboxUnavailable, match="does not answer"):
        check_attested(Client("http://127.0.0.1:9", "t" * 32, pauses=(0.0,)), 512, None)
