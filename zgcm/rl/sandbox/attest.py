"""Proof, before the first candidate, that a jail holds: probes run inside it look for each way out."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zgcm.errors import ZgcmError
from zgcm.rl.sandbox.image import image
from zgcm.rl.sandbox.jail import Jail, Limits, jail, running
from zgcm.rl.sandbox.verdict import Sandbox, sandbox

PROBE_SECONDS = 30
SECRETS = ("/etc/passwd", "/root", "/home", "/var", "/run", "/etc/shadow", "/usr/bin", "/bin")


@contextlib.contextmanager
def attested_sandbox(
    slots: int, limits: Limits | None = None, secrets: tuple[Path, ...] = ()
) -> Iterator[tuple[Sandbox, dict[str, Any]]]:
    """A sandbox of this machine that was proved to hold, and the proof. Raises ZgcmError when it does not."""
    with image() as parts:
        made = jail(parts, limits or Limits())
        found = attest(made, secrets)
        with sandbox(made, slots) as judge:
            yield judge, found


def attest(jail: Jail, secrets: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Every property is True, or ZgcmError names those that do not hold. `secrets`: paths that must be out of
    reach (tests, tokens). `cgroup` is what there is: False where only rlimits bound a jail."""
    limits = jail.limits
    paths = [*SECRETS, *map(str, secrets)]
    code = (
        f"from inside import limits, probe; limits.apply(*{limits.rlimits(PROBE_SECONDS)}); "
        f"probe.main({paths!r}, {limits.scratch_bytes})"
    )
    with running(jail, 0, code, output=True) as run:
        outside = _from_outside(run.child)
        assert run.process.stdout is not None
        said = run.process.stdout.read()
    try:
        found: dict[str, str] = json.loads(said)
    except ValueError as error:
        raise ZgcmError("The sandbox's probes ended early", found=repr(said[:200])) from error
    broken = {name: text for name, text in {**outside, **found}.items() if text}
    if broken:
        raise ZgcmError(
            "The sandbox does not hold",
            found="; ".join(f"{name} ({text})" for name, text in broken.items()),
            expected="every property of `zgcm sandbox attest`",
            hint='docs/sandbox.md, "It does not start"',
        )
    return {**dict.fromkeys((*outside, *found), True), "cgroup": bool(jail.groups)}


def _from_outside(pid: int) -> dict[str, str]:
    """What only the host sees: separate namespaces, and a user who is not root here either."""
    found = {}
    for name in ("user", "pid", "net", "ipc", "uts", "mnt"):
        mine, its = (Path(f"/proc/{who}/ns/{name}").readlink() for who in ("self", pid))
        found[f"{name}_namespace"] = "the host's" if mine == its else ""
    status = Path(f"/proc/{pid}/status").read_text()
    uids = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1:]
    found["host_uid"] = "root" if "0" in uids else ""
    return found
