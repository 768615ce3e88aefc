"""What a program finds when it looks for a way out: run in a jail by `zgcm.rl.sandbox.attest`."""

import ctypes
import errno
import json
import os
import resource
import socket
import sys
from collections.abc import Callable
from pathlib import Path

AF_INET = 2
CLONE_NEWUSER = 0x10000000
PTRACE_ATTACH = 16
PR_GET_NO_NEW_PRIVS, PR_GET_SECCOMP = 39, 21
FORKS = 4096


def main(secrets: list[str], scratch_bytes: int) -> None:
    """Print a JSON object: property -> "" or what was found instead."""
    found: dict[str, str] = {}
    libc = ctypes.CDLL(None, use_errno=True)

    def must(name: str, holds: bool, otherwise: object) -> None:
        found[name] = "" if holds else str(otherwise)[:200]

    must("uid", 0 not in (os.getuid(), os.geteuid(), os.getgid()), f"uid {os.getuid()}")
    must("own_pids", os.getpid() < 10, f"pid {os.getpid()}")
    must("hostname", os.uname().nodename == "sandbox", os.uname().nodename)
    must("no_new_privileges", libc.prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "not set")
    must("seccomp", libc.prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2, "no filter")
    must(
        "ptrace_blocked",
        libc.ptrace(PTRACE_ATTACH, 0, 0, 0) == -1 and ctypes.get_errno() == errno.EPERM,
        "allowed",
    )
    must("nested_namespaces_blocked", libc.unshare(CLONE_NEWUSER) == -1, "unshare works")
    must("kernel_memory_blocked", libc.memfd_create(b"x", 0) == -1, "memfd_create works")
    must("capabilities", _no_capabilities(libc), "some are left")
    must("network_blocked", _fails(lambda: socket.socket(AF_INET)), "an internet socket opens")
    must(
        "environment",
        not set(os.environ) - {"PATH", "LANG", "LD_LIBRARY_PATH", "HOME", "PWD", "LC_CTYPE"},
        [*os.environ],
    )
    must(
        "secrets_unreachable",
        not any(Path(path).exists() for path in secrets),
        [path for path in secrets if Path(path).exists()],
    )
    must(
        "no_processes_shown",
        not Path("/proc/1").exists() and not Path("/sys/kernel").exists(),
        "/proc or /sys",
    )
    writable = [place for place in _directories() if _writes(place)]
    must("read_only_root", not writable, writable[:5])
    must("scratch_writable", _writes("/tmp"), "/tmp refuses a file")
    must("session", os.getsid(0) != 0, "in the caller's session")
    open_files = [number for number in range(3, 256) if not _fails(lambda n=number: os.fstat(n))]  # type: ignore[misc]
    must("descriptors", not open_files, open_files)
    _limits(must, scratch_bytes)
    sys.stdout.write(json.dumps(found))
    sys.stdout.flush()


def _limits(must: Callable[[str, bool, object], None], scratch_bytes: int) -> None:
    for name in ("CPU", "AS", "NPROC", "FSIZE", "NOFILE"):
        _, hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))
        must(f"rlimit_{name.lower()}", hard != resource.RLIM_INFINITY, "unlimited")
    must("rlimit_core", resource.getrlimit(resource.RLIMIT_CORE) == (0, 0), "core files")
    size = resource.getrlimit(resource.RLIMIT_AS)[0]
    must("memory_limited", _fails(lambda: bytearray(size)), f"{size} bytes were given")
    must("scratch_limited", _fails(lambda: _flood(scratch_bytes)), f"more than {scratch_bytes} bytes")
    most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    children = _forks()
    must("fork_limited", len(children) <= most, f"{len(children)} processes")
    for child in children:
        os.kill(child, 9)
        os.waitpid(child, 0)


def _forks() -> list[int]:
    children = []
    for _ in range(FORKS):
        try:
            child = os.fork()
        except OSError:
            break
        if child == 0:
            import signal

            signal.pause()
        children.append(child)
    return children


def _flood(size: int) -> None:
    names = [f"/tmp/flood{n}" for n in range(3)]
    try:
        for name in names:
            with Path(name).open("wb", buffering=0) as file:
                block = bytes(1 << 20)
                for _ in range(size // 2 >> 20):
                    if file.write(block) < len(block):
                        raise OSError("short")
    finally:
        for name in names:
            Path(name).unlink(missing_ok=True)


def _no_capabilities(libc: ctypes.CDLL) -> bool:
    """Neither effective, permitted nor in the bounding set (PR_CAPBSET_READ)."""
    header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    held = libc.capget(header, data) != 0 or any(data)
    return not held and all(libc.prctl(23, number, 0, 0, 0) != 1 for number in range(41))


def _directories() -> list[str]:
    return [where for where, _, _ in os.walk("/") if not where.startswith("/tmp")]


def _writes(place: str) -> bool:
    path = Path(place, ".probe")
    if _fails(path.touch):
        return False
    path.unlink()
    return True


def _fails(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except (OSError, MemoryError):
        return True
    return False
