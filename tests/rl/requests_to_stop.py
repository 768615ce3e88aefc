"""A request to stop that comes while a test waits for something."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def asked_after(seconds: float, number: int) -> Iterator[None]:
    """The signal to this process, so many seconds from now."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.Signals(number)))
    timer.start()
    yield
    timer.cancel()
