"""The sandbox of a stage: a service of its own for as long as the stage runs, or one that runs already.

Nothing is scored 0 because of it. What the service cannot answer is asked again, a service of the stage's own
that died is started anew, a few times; then the stage ends with an error.
"""

import contextlib
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zgcm.config.rl import Sandbox
from zgcm.errors import ZgcmError
from zgcm.io import sha256_file
from zgcm.rl.lines import read_line
from zgcm.rl.sandbox import token as tokens
from zgcm.rl.sandbox.client import Client, SandboxUnavailable

START_SECONDS = 180.0
STOP_SECONDS = 20.0
RESTARTS = 3
"""Of a service of the stage's own, in one start of the stage."""
REMOTE_REQUESTS = 32
CHECK_SECONDS = 60.0
"""Published: a service elsewhere may become another one while the stage runs, so it is attested again."""
MOST_SLOTS = 32
NO_PROPERTY = ("cgroup",)
"""Of an attestation: says what there is, and need not hold."""


class Service:
    """Asks for verdicts; thread-safe. `start` makes the client of a service that was attested."""

    def __init__(self, settings: Sandbox, assets: Path | None, log: Path) -> None:
        self.settings = settings
        self.assets = assets
        self.log = log
        self.own = settings.url is None
        self.slots = settings.slots or min(MOST_SLOTS, len(os.sched_getaffinity(0)))
        self.at_a_time = 2 * self.slots if self.own else settings.slots or REMOTE_REQUESTS
        """Requests; more than there are slots, so that none waits for the next program."""
        self.process: subprocess.Popen[bytes] | None = None
        self.client = Client("", "")
        self.lock = threading.RLock()  # starting anew counts retries
        self.restarts = 0
        self.retries = 0
        self.checked = 0.0

    def start(self) -> None:
        """Raises ZgcmError when the service does not answer, or does not hold."""
        given = Path(self.settings.token_file) if self.settings.token_file else None
        url, token = self._started() if self.own else (str(self.settings.url), tokens.read(given))
        self.client = Client(url, token, float(self.settings.request_timeout), on_retry=self._count)
        self._check()

    def verify(self, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to a `/v1/verify`. Raises SandboxUnavailable when there is none after all attempts, and
        SandboxRefused at once."""
        while True:
            client = self.client
            try:
                self._check_again()
                return client.verify(body)
            except SandboxUnavailable:
                if not self._revived(client):
                    raise

    def take_retries(self) -> int:
        with self.lock:
            count, self.retries = self.retries, 0
        return count

    def stop(self) -> None:
        """Closing its stdin asks it to end."""
        if self.process is None:
            return
        assert self.process.stdin is not None and self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_SECONDS)
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process = None

    def _revived(self, client: Client) -> bool:
        """Whether there is another service to ask than this client's, which did not answer."""
        with self.lock:
            if self.client is not client:
                return True
            if self.process is None or self.process.poll() is None or self.restarts == RESTARTS:
                return False
            self.restarts += 1
            self.stop()
            self.start()
            return True

    def _check(self) -> None:
        check_attested(self.client, self.settings.memory_mb, self.assets)
        self.checked = time.monotonic()

    def _check_again(self) -> None:
        if self.own:
            return
        with self.lock:
            if time.monotonic() - self.checked >= CHECK_SECONDS:
                self._check()

    def _count(self) -> None:
        with self.lock:
            self.retries += 1

    def _started(self) -> tuple[str, str]:
        """(address, token) of a new process that ends when this one does."""
        token = secrets.token_hex(32)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        begin = self.log.stat().st_size if self.log.exists() else 0
        options = {
            "--assets": self.assets, "--port": 0, "--slots": self.slots, "--queue": 2 * self.at_a_time,
            "--memory-mb": self.settings.memory_mb,
        }  # fmt: skip
        arguments = [str(part) for option in options.items() for part in option]
        with self.log.open("ab") as stream:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "zgcm.cli", "sandbox", "serve", *arguments, "--until-stdin-ends"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                env={**os.environ, tokens.VARIABLE: token},
                start_new_session=True,  # ctrl-C is the stage's to handle
            )
        address = read_line(self.process, START_SECONDS)
        if address is None or not address.startswith(b"http"):
            self.stop()
            with self.log.open("rb") as said:
                said.seek(begin)
                words = said.read().decode(errors="replace").strip()
            raise ZgcmError(
                "The sandbox of this stage does not start", where=str(self.log),
                found=words[-1500:] or f"no word in {START_SECONDS:.0f} s",
                hint="try: zgcm sandbox attest; reasons and remedies are in docs/sandbox.md",
            )  # fmt: skip
        return address.decode().strip(), token


@contextlib.contextmanager
def service(settings: Sandbox, assets: Path | None, log: Path) -> Iterator[Service]:
    """A started service. Raises ZgcmError. `assets` may be None with a `url`."""
    made = Service(settings, assets, log)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def check_attested(client: Client, memory_mb: int, assets: Path | None) -> None:
    """Raises ZgcmError unless a service says that every property holds, its limits are the recipe's and, with
    `assets`, it has the same tests. Fails closed: what it does not say does not hold."""
    health = client.health()
    attestation = health.get("attestation")
    properties = attestation if isinstance(attestation, dict) else {}
    broken = [name for name, holds in properties.items() if holds is not True and name not in NO_PROPERTY]
    if health.get("status") != "healthy" or not properties or broken:
        raise ZgcmError(
            "The sandbox does not hold", where=client.url,
            found=", ".join(broken) or f"status {health.get('status')!r}, {len(properties)} properties",
            expected="a healthy service, every property attested", hint="docs/sandbox.md",
        )  # fmt: skip
    limits = health.get("limits")
    memory = limits.get("memory_bytes") if isinstance(limits, dict) else None
    if memory != memory_mb << 20:
        raise ZgcmError(
            "The sandbox has another limit of memory than the recipe", where=client.url, found=repr(memory),
            expected=f"{memory_mb << 20} (reward.sandbox.memory_mb)",
            hint=f"zgcm sandbox serve --memory-mb {memory_mb}",
        )  # fmt: skip
    if assets is not None and health.get("asset_manifest_sha256") != sha256_file(assets / "manifest.json"):
        raise ZgcmError(
            "The sandbox has other tests than this stage", where=client.url,
            expected=f"the manifest of {assets}",
            hint="serve the same directory, or leave prompts.assets out and let the service's tests count",
        )  # fmt: skip
