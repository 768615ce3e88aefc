"""The jail holds, and says which property does not when one is taken away."""

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from zgcm.errors import ZgcmError
from zgcm.rl.sandbox import jail as jails
from zgcm.rl.sandbox import seccomp
from zgcm.rl.sandbox.attest import attest
from zgcm.rl.sandbox.jail import Jail, StartError, running


def test_every_property_holds(a_jail: Jail, tmp_path: Path) -> None:
    found = attest(a_jail, (tmp_path,))
    assert len(found) >= 30 and all(value is True for name, value in found.items() if name != "cgroup")


@pytest.mark.parametrize(
    ("option", "arguments", "named"),
    [
        ("--unshare-net", 0, "net_namespace"),
        ("--unshare-ipc", 0, "ipc_namespace"),
        ("--hostname", 1, "hostname"),
        ("--seccomp", 1, "seccomp"),
    ],
)
def test_fails_closed(
    a_jail: Jail, monkeypatch: pytest.MonkeyPatch, option: str, arguments: int, named: str
) -> None:
    real = jails.command

    def weaker(*given: Any) -> list[str]:
        line = real(*given)
        place = line.index(option)
        return line[:place] + line[place + 1 + arguments :]

    monkeypatch.setattr(jails, "command", weaker)
    with pytest.raises(ZgcmError, match=rf"does not hold.*{named}"):
        attest(a_jail)


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        (["--bind", "/tmp", "/open"], "read_only_root"),
        (["--ro-bind", "/etc/passwd", "/etc/passwd"], "secrets_unreachable"),
        (["--proc", "/proc"], "no_processes_shown"),
        (["--setenv", "TOKEN", "x"], "environment"),
    ],
)
def test_more_than_it_needs(
    a_jail: Jail, monkeypatch: pytest.MonkeyPatch, extra: list[str], named: str
) -> None:
    real = jails.command

    def wider(*given: Any) -> list[str]:
        line = real(*given)
        place = line.index("--dev")
        return line[:place] + extra + line[place:]

    monkeypatch.setattr(jails, "command", wider)
    with pytest.raises(ZgcmError, match=named):
        attest(a_jail)


def test_a_jail_that_does_not_start_says_why(a_jail: Jail, tmp_path: Path) -> None:
    broken = replace(a_jail, image=replace(a_jail.image, binds=((tmp_path / "gone", "/gone"),)))
    with pytest.raises(StartError, match="gone"), running(broken, 1, "pass"):
        pass


@pytest.mark.parametrize("machine", seccomp.ARCHITECTURES)
def test_jumps_of_the_filter_end_on_instructions(machine: str) -> None:
    lines = list(struct.iter_unpack("<HBBI", seccomp.program(machine)))
    for place, (code, true, false, _) in enumerate(lines):
        if code & 7 == 5:
            assert place + 1 + max(true, false) < len(lines)
    assert lines[-1][0] == 6


def test_no_filter_for_other_machines() -> None:
    with pytest.raises(ZgcmError, match="riscv64"):
        seccomp.program("riscv64")
