"""Asks the sandbox service for a verdict. Its failures are never a wrong answer: they raise."""

import time
from dataclasses import dataclass
from typing import Any

import requests

from zgcm.errors import ZgcmError

ATTEMPTS = 3
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

    def verify(self, body: dict[str, Any]) -> dict[str, Any]:
        """The service's answer. Asks again, after 1 and 3 seconds, when it is not available."""
        for pause in (*self.pauses, None):
            try:
                return self._once(body)
            except SandboxUnavailable:
                if pause is None:
                    raise
                time.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _once(self, body: dict[str, Any]) -> dict[str, Any]:
        where = self.url.rstrip("/").removesuffix("/v1/verify") + "/v1/verify"
        try:
            answer = requests.post(
                where, json=body, headers={"Authorization": f"Bearer {self.token}"}, timeout=self.timeout
            )
        except requests.RequestException as error:
            raise SandboxUnavailable(
                "The sandbox does not answer", where=where, found=type(error).__name__,
                hint="zgcm sandbox serve",
            ) from error  # fmt: skip
        if answer.status_code >= 500:
            raise SandboxUnavailable(
                "The sandbox cannot judge now", where=where, found=f"{answer.status_code} {answer.text[:200]}"
            )
        if answer.status_code != 200:
            raise SandboxRefused(
                "The sandbox refuses the request",
                where=where,
                found=f"{answer.status_code} {answer.text[:200]}",
            )
        return checked(where, answer)


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
