"""A control group for each jail, where this process may make one: then memory and processes are bounded for
a jail as a whole. Without one, rlimits bound each process, and their number."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


def hierarchies() -> list[Path]:
    """Directories below which jails can be limited: of version 2, of version 1 (memory, pids), or none."""
    mine = {
        line.split(":")[1]: line.split(":", 2)[2].lstrip("/")
        for line in Path("/proc/self/cgroup").read_text().splitlines()
    }
    places = []
    for controller in ("memory", "pids"):
        home = next((path for names, path in mine.items() if controller in names.split(",")), None)
        if home is not None and os.access(ROOT / controller / home, os.W_OK):
            places.append(ROOT / controller / home)
    if len(places) == 2:
        return places
    if "" in mine:
        home_2 = ROOT / mine[""]
        control = home_2 / "cgroup.subtree_control"
        with contextlib.suppress(OSError):
            if {"memory", "pids"} <= set(control.read_text().split()) and os.access(home_2, os.W_OK):
                return [home_2]
    return []


@contextlib.contextmanager
def group(places: list[Path], name: str, memory_bytes: int, processes: int) -> Iterator[list[Path]]:
    """Make a group in each hierarchy; its members are killed and it is removed at the end."""
    made: list[Path] = []
    try:
        for place in places:
            directory = place / name
            directory.mkdir()
            made.append(directory)
            for file, value in (
                ("memory.max", memory_bytes),
                ("memory.swap.max", 0),
                ("memory.limit_in_bytes", memory_bytes),
                ("pids.max", processes),
            ):
                if (directory / file).exists():
                    (directory / file).write_text(str(value))
        yield made
    finally:
        for directory in made:
            _remove(directory)


def join(groups: list[Path], pid: int) -> None:
    for directory in groups:
        (directory / "cgroup.procs").write_text(str(pid))


def _remove(directory: Path) -> None:
    """Members are dying when this is called; the kernel takes a moment to let go of them."""
    for _ in range(200):
        try:
            directory.rmdir()
            return
        except OSError:
            time.sleep(0.01)
    directory.rmdir()
