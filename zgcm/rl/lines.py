"""A line from a process, awaited no longer than a deadline."""

import os
import select
import subprocess
import time


def read_line(process: subprocess.Popen[bytes], seconds: float) -> bytes | None:
    """The next line of its stdout; what there was of it when the process ended; None at the deadline."""
    assert process.stdout is not None
    descriptor = process.stdout.fileno()
    end = time.monotonic() + seconds
    line = b""
    while not line.endswith(b"\n"):
        left = end - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            return None
        part = os.read(descriptor, 65536)
        if not part:
            break
        line += part
    return line
