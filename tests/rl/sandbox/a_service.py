"""`zgcm sandbox serve` in a process of its own, with tests to run."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zgcm.io import sha256_bytes
from zgcm.rl.formats import write_assets
from zgcm.rl.sandbox.client import Client

TOKEN = "t" * 32


def asset(tests: list[Any]) -> tuple[str, bytes]:
    """(hash, content) of some tests."""
    packed = json.dumps(tests).encode()
    return sha256_bytes(packed), packed


class Server:
    """`stop` when done. `command` starts Python; `variables` are added to its environment."""

    def __init__(
        self,
        assets: Path,
        tests: Sequence[list[Any]],
        *options: str,
        command: Sequence[str] = (sys.executable,),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        write_assets(assets, dict(map(asset, tests)))
        serve = ("-m", "zgcm.cli", "sandbox", "serve", "--assets", str(assets), "--port", "0", *options)
        self.process = subprocess.Popen(
            [*command, *serve],
            env={**os.environ, "ZGCM_CODE_SANDBOX_TOKEN": TOKEN, **(variables or {})},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        self.client = Client(self.url, TOKEN, pauses=())

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()
