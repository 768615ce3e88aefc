"""The sandbox as an HTTP service: one bounded queue, one token, verdicts as JSON.

GET /health, GET /metrics, POST /v1/verify (docs/sandbox.md). A request that the service cannot answer now or
any more gets 503: the client asks again, and nothing is scored 0 for it.
"""

import asyncio
import hashlib
import hmac
import signal
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from zgcm.errors import ZgcmError
from zgcm.io import sha256_bytes
from zgcm.rl.sandbox import assets
from zgcm.rl.sandbox.request import BODY_BYTES, BadRequest, Verify, parse
from zgcm.rl.sandbox.verdict import Outcome, Sandbox

RETRY_SECONDS = 1
CODE = Path(__file__).parent


@dataclass
class Server:
    """Its state. `queued` counts requests that wait or run."""

    sandbox: Sandbox
    root: Path
    token: str
    attestation: dict[str, Any]
    most_queued: int
    threads: ThreadPoolExecutor
    instance: str = field(default_factory=lambda: uuid.uuid4().hex)
    started_at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    queued: int = 0
    draining: bool = False

    def __post_init__(self) -> None:
        self.code = code_sha256(CODE)
        self.registry = CollectorRegistry()
        self.requests = Counter("sandbox_requests", "Requests by answer", ["status"], registry=self.registry)
        self.tests = Counter("sandbox_tests", "Tests run, by verdict", ["verdict"], registry=self.registry)
        self.seconds = Histogram("sandbox_test_seconds", "Seconds of a test", registry=self.registry)
        waiting = Gauge("sandbox_queued", "Requests waiting or running", registry=self.registry)
        waiting.set_function(lambda: self.queued)

    def application(self) -> web.Application:
        made = web.Application(client_max_size=BODY_BYTES, middlewares=[self._guard])
        made.router.add_get("/health", self.health)
        made.router.add_get("/metrics", self.metrics)
        made.router.add_post("/v1/verify", self.verify)
        return made

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """The token before anything else, even whether the path exists; every failure as JSON."""
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            answer: web.StreamResponse = error(401, "unauthorized")
        else:
            try:
                answer = await handler(request)
            except web.HTTPRequestEntityTooLarge:
                answer = error(400, f"more than {BODY_BYTES} bytes")
            except web.HTTPException as problem:
                answer = error(problem.status, problem.reason.lower().replace(" ", "_"))
        self.requests.labels(str(answer.status)).inc()
        return answer

    async def health(self, _: web.Request) -> web.Response:
        return web.json_response(
            {
                "status": "draining" if self.draining else "healthy",
                "sandbox_mode": "attested-http",
                "attestation": self.attestation,
                "limits": asdict(self.sandbox.jail.limits),
                "service_instance_id": self.instance,
                "started_at": self.started_at,
                "sandbox_code_sha256": self.code,
                "token_sha256": sha256_bytes(self.token.encode()),
                "asset_manifest_sha256": sha256_bytes((self.root / "manifest.json").read_bytes()),
                "queued": self.queued,
                "most_queued": self.most_queued,
            }
        )

    async def metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self.registry), content_type="text/plain", charset="utf-8")

    async def verify(self, request: web.Request) -> web.Response:
        try:
            asked = parse(await request.read())
        except BadRequest as problem:
            return error(400, str(problem))
        if self.draining:
            return busy("draining")
        if self.queued >= self.most_queued:
            return busy("queue_full")
        self.queued += 1
        try:
            loop = asyncio.get_running_loop()
            return web.json_response(await loop.run_in_executor(self.threads, self.judge, asked))
        except ZgcmError as problem:
            return web.json_response({"error": "sandbox_backend_error", "reason": problem.what}, status=503)
        finally:
            self.queued -= 1

    def judge(self, asked: Verify) -> dict[str, Any]:
        tests = assets.picked(
            self.root, asked.asset_hash, asked.task_type, asked.selection_seed, asked.max_tests
        )
        outcomes = self.sandbox.score(asked.program, tests, asked.task_type, asked.max_execution_time)
        for outcome in outcomes:
            self.tests.labels("passed" if outcome.passed else "failed").inc()
            self.seconds.observe(outcome.seconds)
        return {"asset_hash": asked.asset_hash, **summary(outcomes)}

    async def drained(self) -> None:
        """Take no more requests; return when the last is answered."""
        self.draining = True
        while self.queued:
            await asyncio.sleep(0.05)


def code_sha256(directory: Path) -> str:
    """Of the sources in a directory: name, a zero byte and content of each, in the order of their names."""
    total = hashlib.sha256()
    for path in sorted(directory.rglob("*.py")):
        total.update(path.relative_to(directory).as_posix().encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


def summary(outcomes: list[Outcome]) -> dict[str, Any]:
    """The published answer, and why each test failed."""
    return {
        "results": [int(outcome.passed) for outcome in outcomes],
        "runtimes": [round(outcome.seconds, 6) for outcome in outcomes],
        "reasons": [outcome.reason for outcome in outcomes],
        "score": sum(outcome.passed for outcome in outcomes) / len(outcomes),
        "test_count": len(outcomes),
    }


def error(status: int, text: str) -> web.Response:
    return web.json_response({"error": text}, status=status)


def busy(text: str) -> web.Response:
    return web.json_response({"error": text}, status=503, headers={"Retry-After": str(RETRY_SECONDS)})


async def serve(
    server: Server, host: str, port: int, ready: Callable[[str], None], parent: BinaryIO | None = None
) -> None:
    """Until SIGTERM or SIGINT; then what is queued is still answered. With `parent`, a pipe, until its other
    end is closed, if only by death; signals are then left to the parent."""
    runner = web.AppRunner(server.application(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, host, port, backlog=512)
    try:
        await site.start()
    except OSError as problem:
        await runner.cleanup()
        raise ZgcmError(
            "The sandbox cannot listen", where=f"{host}:{port}", found=problem.strerror or str(problem),
            hint="another --port (0 takes a free one), or a --host of this machine",
        ) from problem  # fmt: skip
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    if parent is None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
    else:
        threading.Thread(target=_await_end, args=(parent, loop, stop), daemon=True).start()
    ready(f"http://{host}:{runner.addresses[0][1]}")
    started = time.monotonic()
    await stop.wait()
    await server.drained()
    await runner.cleanup()
    ready(f"Stopped after {time.monotonic() - started:.0f} s; every request was answered")


def _await_end(parent: BinaryIO, loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    parent.read()
    loop.call_soon_threadsafe(stop.set)
