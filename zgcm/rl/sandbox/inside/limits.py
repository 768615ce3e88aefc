"""The rlimits of a process in a jail, set from within: there the number of processes counts for this jail's
user namespace alone (Linux 5.14), not for every process of the same user."""

import os
import resource


def apply(memory_bytes: int, processes: int, open_files: int, scratch_bytes: int, cpu_seconds: int) -> None:
    """Soft and hard: the program cannot raise them. stderr, until here bubblewrap's, becomes /dev/null."""
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 2)
    os.close(null)
    for name, value in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_NPROC, processes),
        (resource.RLIMIT_NOFILE, open_files),
        (resource.RLIMIT_FSIZE, scratch_bytes),
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(name, (value, value))
