"""Asks the sandbox service for a verdict. Its failures are never a wrong answer: they raise."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import requests

from zgcm.errors import ZgcmError

PAUSES = (1.0, 3.0)
"""Seconds before the second and the third attempt."""
TIMEOUT_SECONDS = 180.0


class SandboxRefused(ZgcmError):
    """The request, the token or the address is wrong: asking again does not help."""


class SandboxUnavailable(ZgcmError):
    """The service is down, full, draining, or cannot run anything."""


@dataclass(frozen=True)
class Client:
    url: str
    token: str
    timeout: float = TIMEOUT_SECONDS
    pauses: tuple[float, ...] = PAUSES
    on_retry: Callable[[], None] = lambda: None
    """Called before an attempt that is not the first."""

    def verify(self, body: dict[str, Any]) -> dict[str, Any]:
        """The service's answer. Asks again, after 1 and 3 seconds, when it is not available."""
        return self._persistently(lambda: self._verify(body))

    def health(self) -> dict[str, Any]:
        """What the service says of itself."""
        return self._persistently(self._health)

    def _persistently(self, attempt: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        for pause in (*self.pauses, None):
            try:
                return attempt()
            except SandboxUnavailable:
                if pause is None:
                    raise
                time.sleep(pause)
                self.on_retry()
        raise AssertionError("the last attempt returns or raises")

    def _verify(self, body: dict[str, Any]) -> dict[str, Any]:
        # not as requests writes JSON: two bytes of text would become six, and the body is limited
        data = json.dumps(body, ensure_ascii=False).encode()
        return checked(self._where("/v1/verify"), self._ask("POST", "/v1/verify", data))

    def _health(self) -> dict[str, Any]:
        answer = self._ask("GET", "/health", None)
        try:
            return dict(answer.json())
        except (ValueError, TypeError) as error:
            raise SandboxUnavailable(
                "The sandbox says nothing of itself", where=answer.url, found=answer.text[:200]
            ) from error

    def _where(self, path: str) -> str:
        return self.url.rstrip("/").removesuffix("/v1/verify") + path

    def _ask(self, method: str, path: str, data: bytes | None) -> requests.Response:
        where = self._where(path)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        try:
            answer = requests.request(method, where, data=data, headers=headers, timeout=self.timeout)
        except requests.RequestException as error:
            raise SandboxUnavailable(
                "The sandbox does not answer", where=where, found=type(error).__name__,
                hint="is it running (zgcm sandbox serve), and is this its address?",
            ) from error  # fmt: skip
        if answer.status_code >= 500:
            raise SandboxUnavailable(
                "The sandbox cannot judge now", where=where, found=f"{answer.status_code} {answer.text[:200]}"
            )
        if answer.status_code != 200:
            raise SandboxRefused(
                "The sandbox refuses the token" if answer.status_code in (401, 403)
                else "The sandbox refuses the request",
                where=where,
                found=f"{answer.status_code} {answer.text[:200]}",
            )  # fmt: skip
        return answer


def checked(where: str, answer: requests.Response) -> dict[str, Any]:
    """An answer whose score is a number from 0 to 1. Raises SandboxUnavailable for anything else."""
    try:
        found = answer.json()
        score = found["score"]
    except (ValueError, KeyError, TypeError) as error:
        raise SandboxUnavailable(
            "The sandbox gives no score", where=where, found=answer.text[:200]
        ) from error
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        raise SandboxUnavailable("The sandbox gives no score", where=where, found=repr(score)[:80])
    return dict(found)
