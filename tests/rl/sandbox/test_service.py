"""The service over HTTP: token, protocol, limits, back-pressure, drain."""

import asyncio
import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import requests
from a_service import TOKEN, Server, asset

from zgcm.errors import ZgcmError
from zgcm.io import sha256_bytes
from zgcm.rl.formats import write_assets
from zgcm.rl.sandbox import assets, token
from zgcm.rl.sandbox import server as http
from zgcm.rl.sandbox.assets import AssetError
from zgcm.rl.sandbox.client import Client, SandboxRefused, SandboxUnavailable
from zgcm.rl.sandbox.request import BadRequest, parse

OPTIONS = ("--slots", "2", "--queue", "3")
TESTS = {
    "code": ["assert f(1) == 2", "assert f(2) == 3", "assert f(3) == 9"],
    "code_stdio": [{"input": "1\n", "output": "2"}],
}
HASHES, PACKED = ({task: asset(tests)[part] for task, tests in TESTS.items()} for part in (0, 1))
BODY = {
    "program": "def f(x): return x + 1",
    "asset_hash": HASHES["code"],
    "task_type": "code",
    "selection_seed": "s",
    "max_execution_time": 10,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("assets"), [*TESTS.values()], *OPTIONS)
    try:
        yield made
    finally:
        made.stop()


def test_verdicts(server: Server) -> None:
    answer = server.client.verify(BODY)
    order = assets.chosen(3, "s", 8)
    assert answer["results"] == [int(index < 2) for index in order] and answer["test_count"] == 3
    assert answer["score"] == pytest.approx(2 / 3) and len(answer["runtimes"]) == 3
    assert server.client.verify({**BODY, "max_tests": 1})["test_count"] == 1
    program = {"program": "print(int(input()) + 1)", "task_type": "code_stdio"}
    assert server.client.verify({**BODY, **program, "asset_hash": HASHES["code_stdio"]})["score"] == 1


def test_the_token_comes_first(server: Server) -> None:
    for path in ("/health", "/nowhere", "/metrics"):
        assert requests.get(server.url + path, timeout=10).status_code == 401
    bad = {"Authorization": "Bearer " + "x" * 32}
    answer = requests.post(server.url + "/v1/verify", headers=bad, json=BODY, timeout=10)
    assert (answer.status_code, answer.json()) == (401, {"error": "unauthorized"})
    with pytest.raises(SandboxRefused, match="401"):
        Client(server.url, "x" * 32, pauses=()).verify(BODY)


def test_health_metrics_and_what_is_not_there(server: Server) -> None:
    good = {"Authorization": f"Bearer {TOKEN}"}
    health = requests.get(server.url + "/health", headers=good, timeout=10).json()
    assert health["status"] == "healthy" and all(
        health["attestation"][name] for name in ("seccomp", "host_uid")
    )
    assert health["token_sha256"] == sha256_bytes(TOKEN.encode())
    identity = ("service_instance_id", "started_at", "sandbox_code_sha256", "asset_manifest_sha256")
    assert all(isinstance(health[name], str) and health[name] for name in identity)
    assert datetime.fromisoformat(health["started_at"]) <= datetime.now(UTC)
    assert health["sandbox_mode"] == "attested-http"
    assert health["sandbox_code_sha256"] == http.code_sha256(Path(http.__file__).parent)
    server.client.verify(BODY)
    metrics = requests.get(server.url + "/metrics", headers=good, timeout=10).text
    assert 'sandbox_tests_total{verdict="passed"}' in metrics and "sandbox_queued 0.0" in metrics
    answer = requests.get(server.url + "/nowhere", headers=good, timeout=10)
    assert (answer.status_code, answer.json()) == (404, {"error": "not_found"})


def test_the_digest_of_the_code_covers_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    one, other = tmp_path / "server.py", tmp_path / "inside" / "judge.py"
    seen = set()
    for path, text in ((one, "a"), (other, "b"), (one, "b"), (other, "a")):
        path.write_text(text)
        seen.add(http.code_sha256(tmp_path))
    other.rename(tmp_path / "judge.py")
    assert len(seen | {http.code_sha256(tmp_path)}) == 5
    assert http.code_sha256(tmp_path) == sha256_bytes(b"judge.py\0a" + b"server.py\0b")


def test_what_is_no_verdict(server: Server) -> None:
    with pytest.raises(SandboxUnavailable, match="sandbox_backend_error"):
        server.client.verify({**BODY, "asset_hash": "0" * 64})
    with pytest.raises(SandboxRefused, match="max_tests"):
        server.client.verify({**BODY, "max_tests": 65})
    with pytest.raises(SandboxUnavailable, match="does not answer"):
        Client("http://127.0.0.1:9", TOKEN, pauses=(0.0,)).verify(BODY)


@pytest.mark.slow
def test_a_full_queue_says_so_and_recovers(server: Server) -> None:
    slow = {**BODY, "program": "def f(x):\n    while True: pass", "max_execution_time": 1.5}
    with ThreadPoolExecutor(8) as threads:
        attempts = [threads.submit(server.client.verify, slow) for _ in range(8)]
        failures = [attempt.exception() for attempt in attempts]
    full = [failure for failure in failures if failure]
    assert 1 <= len(full) <= 5 and all("queue_full" in str(failure) for failure in full)
    assert server.client.verify(BODY)["test_count"] == 3


@pytest.mark.slow
def test_drain(tmp_path: Path) -> None:
    server = Server(tmp_path, [*TESTS.values()], *OPTIONS)
    answers: list[Any] = []
    slow = {**BODY, "program": "import time\ntime.sleep(1)\ndef f(x): return x + 1"}
    asking = threading.Thread(target=lambda: answers.append(server.client.verify(slow)))
    asking.start()
    time.sleep(0.7)
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    with pytest.raises(SandboxUnavailable, match=r"draining|does not answer"):
        server.client.verify(BODY)
    asking.join(60)
    assert answers and answers[0]["score"] == pytest.approx(2 / 3)
    assert server.process.wait(30) == 0


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"program": " "}, "program"),
        ({"program": 5}, "program"),
        ({"program": "é" * (256 << 10) + "x"}, "program"),
        ({"program": "\ud800"}, "program"),
        ({"asset_hash": "A" * 64}, "asset_hash"),
        ({"task_type": "math"}, "task_type"),
        ({"selection_seed": ""}, "selection_seed"),
        ({"max_tests": 0}, "max_tests"),
        ({"max_tests": True}, "max_tests"),
        ({"max_execution_time": 10.5}, "max_execution_time"),
        ({"max_execution_time": float("nan")}, "max_execution_time"),
    ],
)
def test_bad_requests_name_the_field(change: dict[str, Any], named: str) -> None:
    with pytest.raises(BadRequest, match=named):
        parse(json.dumps({**BODY, **change}).encode())


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"[" * 100_000])
def test_bad_bodies(body: bytes) -> None:
    with pytest.raises(BadRequest, match="JSON"):
        parse(body)


def test_defaults() -> None:
    made = parse(json.dumps({key: value for key, value in BODY.items() if "max" not in key}).encode())
    assert (made.max_tests, made.max_execution_time) == (8, 2.0)


def test_assets_are_what_their_names_say(tmp_path: Path) -> None:
    write_assets(tmp_path, {HASHES["code"]: PACKED["code_stdio"], HASHES["code_stdio"]: PACKED["code_stdio"]})
    with pytest.raises(AssetError, match="not what their name says"):
        assets.load(tmp_path, HASHES["code"], "code")
    with pytest.raises(AssetError, match="No list of tests"):
        assets.load(tmp_path, HASHES["code_stdio"], "code")
    with pytest.raises(AssetError, match="cannot be read"):
        assets.load(tmp_path, "0" * 64, "code")
    assert assets.load(tmp_path, HASHES["code_stdio"], "code_stdio")[0]["output"] == "2"


@pytest.mark.parametrize("packed", [b"[", b"\xff", b"[" * 100_000, b'{"a": 1}'])
def test_assets_with_a_right_name_that_are_no_tests(tmp_path: Path, packed: bytes) -> None:
    name = sha256_bytes(packed)
    write_assets(tmp_path, {name: packed})
    with pytest.raises(AssetError, match="No list of tests"):
        assets.load(tmp_path, name, "code")


@pytest.mark.parametrize("host", ["127.0.0.1", "nosuch.invalid"])
def test_an_address_that_is_taken_or_unknown(host: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with ThreadPoolExecutor(1) as threads:
            made = http.Server(Mock(), Path(), TOKEN, {}, 1, threads)
            with pytest.raises(ZgcmError, match="cannot listen"):
                asyncio.run(http.serve(made, host, taken.getsockname()[1], print))


def test_the_published_order_of_tests() -> None:
    assert assets.chosen(6, "0" * 64, 6) == [1, 5, 4, 0, 3, 2]


def test_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o640)
    with pytest.raises(ZgcmError, match="mode 0640"):
        token.read(file)
    file.chmod(0o600)
    assert token.read(file) == TOKEN
    file.write_bytes(b"\xff" * 40)
    with pytest.raises(ZgcmError, match="not plain text"):
        token.read(file)
    monkeypatch.setenv(token.VARIABLE, "short")
    with pytest.raises(ZgcmError, match="at least 32"):
        token.read(None)
