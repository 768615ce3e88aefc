"""One run of a program in a jail: bubblewrap's command line, its start, its end.

The jail is: new user, PID, network, IPC, UTS, mount and cgroup namespaces; a root made of `image`'s parts,
read-only; one small tmpfs; a system-call filter; no capability, no environment, no new privileges; its own
session. The uid is never 0: under root every slot has a uid of its own. `attest` proves each of these.
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from zgcm.errors import ZgcmError
from zgcm.rl.sandbox import cgroup, seccomp
from zgcm.rl.sandbox.image import SYSTEM_LIBRARIES, Image

FIRST_UID = 61000
"""Under root, slot N runs as FIRST_UID + N. Within the jail every uid is 65534."""
PR_SET_CHILD_SUBREAPER = 36
OVERHEAD_PROCESSES = 8
"""bubblewrap's own, and threads, on top of a jail's limit in its control group."""
TABLES = 64 << 20
"""Page tables and buffers that a control group counts on top of a process's own memory."""


@dataclass(frozen=True)
class Limits:
    """The published ones. Output above its limit fails the program; files have a limit of their own."""

    memory_bytes: int = 1 << 30
    processes: int = 32
    open_files: int = 64
    scratch_bytes: int = 64 << 20
    output_bytes: int = 64 << 10

    def rlimits(self, cpu_seconds: int) -> tuple[int, ...]:
        """Arguments of `inside.limits.apply`."""
        return self.memory_bytes, self.processes, self.open_files, self.scratch_bytes, cpu_seconds


@dataclass(frozen=True)
class Jail:
    """What every run shares."""

    image: Image
    limits: Limits
    filter: bytes
    groups: tuple[Path, ...]


def jail(image: Image, limits: Limits) -> Jail:
    """From here on this process inherits a jail's first process when bubblewrap ends before it, and reaps it:
    in a container, process 1 may not."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    return Jail(image, limits, seccomp.program(), tuple(cgroup.hierarchies()))


@dataclass(frozen=True)
class Run:
    process: subprocess.Popen[bytes]
    """bubblewrap. Its exit status is the program's."""
    child: int
    """The jail's first process, as the host numbers it."""


class StartError(ZgcmError):
    """The jail did not come up: the machine's fault, never the candidate's."""


def command(jail: Jail, filter_fd: int, info_fd: int, block_fd: int, code: str) -> list[str]:
    """bubblewrap's arguments for running Python code that may import `inside`."""
    arguments = [
        *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"),
        *("--unshare-cgroup-try", "--disable-userns", "--uid", "65534", "--gid", "65534"),
        *("--hostname", "sandbox", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"),
        *("--setenv", "PATH", "/python/bin", "--setenv", "LANG", "C.UTF-8"),
        *("--setenv", "LD_LIBRARY_PATH", "/python/lib", "--setenv", "HOME", "/tmp"),
    ]
    for library in SYSTEM_LIBRARIES:
        if Path(library).is_symlink():
            arguments += ["--symlink", str(Path(library).readlink()), library]
        elif Path(library).is_dir():
            arguments += ["--ro-bind", library, library]
    for source, place in jail.image.binds:
        arguments += ["--ro-bind", str(source), place]
    arguments += [
        *("--dev", "/dev", "--remount-ro", "/dev"),
        *("--perms", "0700", "--size", str(jail.limits.scratch_bytes), "--tmpfs", "/tmp"),
        *("--remount-ro", "/", "--chdir", "/tmp"),
        *("--seccomp", str(filter_fd), "--info-fd", str(info_fd), "--block-fd", str(block_fd)),
        *("--", "/python/bin/python", "-I", "-S", "-B", "-X", "utf8"),
        *("-c", f"import sys; sys.path.insert(0, '/inside'); {code}"),
    ]
    return [str(jail.image.bwrap), *arguments]


@contextlib.contextmanager
def running(
    jail: Jail, slot: int, code: str, descriptors: Sequence[int] = (), *, output: bool = False
) -> Iterator[Run]:
    """Start Python code in a jail; at the end nothing of it is left. `descriptors` keep their numbers.

    With `output`, stdin and stdout are pipes; without, /dev/null. stderr always is /dev/null.
    Raises StartError with bubblewrap's words when the jail does not come up.
    """
    limits = jail.limits
    name = f"zgcm-{os.getpid()}-{slot}"
    with contextlib.ExitStack() as stack:
        groups = stack.enter_context(
            cgroup.group(
                list(jail.groups), name, limits.memory_bytes + limits.scratch_bytes + TABLES,
                limits.processes + OVERHEAD_PROCESSES,
            )
        )  # fmt: skip
        program = stack.enter_context(_memory_file(jail.filter))
        info, info_write = map(stack.enter_context, _pipe())
        block, block_write = map(stack.enter_context, _pipe())
        errors, errors_write = map(stack.enter_context, _pipe())
        pipe = subprocess.PIPE if output else subprocess.DEVNULL
        user = None if os.geteuid() else FIRST_UID + slot
        process: subprocess.Popen[bytes] = subprocess.Popen(
            command(jail, program.fileno(), info_write.fileno(), block.fileno(), code),
            stdin=pipe,
            stdout=pipe,
            stderr=errors_write,
            env={},
            cwd="/",
            pass_fds=(program.fileno(), info_write.fileno(), block.fileno(), *descriptors),
            user=user,
            group=user,
            extra_groups=None if user is None else [],
            start_new_session=True,
        )
        first = -1
        try:
            info_write.close()
            errors_write.close()
            try:
                child = json.loads(info.read())["child-pid"]
                first = os.pidfd_open(child)
                cgroup.join(groups, process.pid)
                cgroup.join(groups, child)
            except (ValueError, OSError) as error:
                process.kill()
                process.wait()
                said = errors.read().decode(errors="replace").strip()
                raise StartError(
                    "The sandbox does not start", found=said or str(error), hint="zgcm sandbox attest"
                ) from error
            block_write.write(b"x")
            block_write.close()
            yield Run(process, child)
        finally:
            _end(process, first)


def _end(process: subprocess.Popen[bytes], first: int) -> None:
    """Kill the jail's first process (`first`: its pidfd): the kernel then kills the whole PID namespace.
    Whoever is its parent by now, bubblewrap or this process, waits until it is gone."""
    if first >= 0:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(first, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
    process.kill()
    process.wait()
    if first >= 0:
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PIDFD, first, os.WEXITED)
        os.close(first)
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def _pipe() -> tuple[BinaryIO, BinaryIO]:
    """Both ends as files: closing one twice is harmless, whatever other threads open meanwhile."""
    read, write = os.pipe()
    return os.fdopen(read, "rb"), os.fdopen(write, "wb")


def _memory_file(content: bytes) -> BinaryIO:
    file = os.fdopen(os.memfd_create("filter"), "w+b")
    file.write(content)
    file.seek(0)
    return file
