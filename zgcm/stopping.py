"""Stopping when asked to: Ctrl-C (SIGINT) and `kill` (SIGTERM).

A verb ends at once and removes its temporary files; training and RL save first (zgcm.train.launch,
zgcm.rl.grpo), unless an RL stage is still starting (zgcm.rl.actors.wait_starting). The process that runs the
workflow passes the request on to the verbs of its running jobs, starts nothing more and waits for them. A
second Ctrl-C ends everything at once.

A terminal sends Ctrl-C to every process in the foreground, so a verb hears of one request twice: from the
terminal as SIGINT, from the workflow as SIGTERM. Slurm repeats SIGTERM too. So only a second SIGINT is a
second request.
"""

import contextlib
import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from zgcm.errors import ZgcmError
from zgcm.numbers import position

if TYPE_CHECKING:
    import psutil

REQUESTS = (signal.SIGINT, signal.SIGTERM)
VERB = ("zgcm", "zgcm.cli")  # among a process's first words: python .../zgcm VERB, python -m zgcm.cli VERB
DYING = 10  # seconds: the kernel may take a while to free a large process
LOOK_AGAIN = 0.3  # seconds: a job may start its verb while the request comes; who waits looks for a request
KEPT = 0.001  # seconds

received: list[int] = []
"""Signals that asked this process to stop, in their order."""


class Stopped(ZgcmError):
    """Ended in good order at the user's request; the command exits with `code`: 128 + signal."""

    def __init__(self, number: int, what: str) -> None:
        super().__init__(f"Stopped at your request: {what}")
        self.code = 128 + number


def how_far(stage: str, reached: int, last: int, first: int = 0) -> str:
    """What is saved of a stage that was asked to stop; see zgcm.numbers.position."""
    if reached <= first:
        return f"{stage} had saved no step yet; the same command begins it anew"
    return f"{stage} saved {position(reached, last, first)}; the same command continues"


class Interrupted(SystemExit):
    """A verb ends because it was asked to. No Exception: nothing on the way mistakes it for a failure."""


def was_requested() -> bool:
    return bool(received)


def end_if_asked() -> None:
    """Raises Interrupted after a request: for code that waits where requests are only noted (`deferring`)."""
    if received:
        raise Interrupted(128 + received[0])


def pause(seconds: float) -> None:
    """Sleep; raises Interrupted as soon as a request was noted."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        end_if_asked()
        time.sleep(min(left, LOOK_AGAIN))


def impatient(numbers: list[int]) -> bool:
    """Whether Ctrl-C was pressed a second time."""
    return numbers.count(signal.SIGINT) > 1


# --- a verb ---------------------------------------------------------------------------------------------


def end_in_order() -> None:
    """From now on a request to stop raises Interrupted in the main thread."""
    for number in REQUESTS:
        signal.signal(number, _end)


def _end(number: int, frame: FrameType | None) -> None:
    received.append(number)
    if impatient(received):
        os._exit(128 + number)
    if len(received) == 1:
        raise Interrupted(128 + number)


@contextlib.contextmanager
def deferring() -> Iterator[Callable[[], int]]:
    """Inside the block a request is only noted: the yielded function returns its signal, 0 while there is
    none. A second Ctrl-C raises Interrupted, a third one ends the process."""

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if received.count(signal.SIGINT) > 2:
            os._exit(128 + number)
        if impatient(received):
            raise Interrupted(128 + number)

    with answering(note):
        yield lambda: received[0] if received else 0


@contextlib.contextmanager
def answering(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Inside the block requests to stop, SIGUSR2 among them, go to `handler`."""
    before = {number: signal.signal(number, handler) for number in (*REQUESTS, signal.SIGUSR2)}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Inside the block requests wait, and nobody else may answer them; then the handlers of before do.

    For ray.init and ray.shutdown. The first sets a handler of SIGTERM that kills Ray and exits with 1, and
    another one under Python's that prints a stack; the second leaves SIGTERM to the system for the 1.2 s in
    which its processes end (Ray 2.60), and one that came then ended this process without a word. They do it
    in C, where Python does not see it: so Python's own handlers are put back every KEPT seconds.
    """
    waiting: list[int] = []
    set_handler = signal.signal

    def refuse(number: int, handler: Any) -> Any:
        return signal.getsignal(number) if number in REQUESTS else set_handler(number, handler)

    def wait(number: int, frame: FrameType | None) -> None:
        waiting.append(number)

    before = {number: set_handler(number, wait) for number in REQUESTS}
    signal.signal = refuse  # type: ignore[assignment]
    over = threading.Event()
    keeper = threading.Thread(target=_keep, args=(list(map(_in_c, REQUESTS)), over), daemon=True)
    keeper.start()
    try:
        yield
    finally:
        over.set()
        keeper.join()
        signal.signal = set_handler
        for number, earlier in before.items():
            set_handler(number, earlier)
        for request in waiting:
            signal.raise_signal(request)


def _in_c(number: int) -> Callable[[], None]:
    """Puts back the handler of a signal that the system has now, from any thread."""
    libc = ctypes.CDLL(None, use_errno=True)
    action = ctypes.create_string_buffer(512)  # struct sigaction, 152 bytes on Linux
    libc.sigaction(number, None, action)
    return lambda: libc.sigaction(number, action, None)


def _keep(put_back: list[Callable[[], None]], over: threading.Event) -> None:
    while not over.wait(KEPT):
        for each in put_back:
            each()


# --- the workflow ---------------------------------------------------------------------------------------


def pass_on() -> None:
    """From now on a request to stop goes to the verbs of the running jobs too, and Snakemake waits for these.

    Snakemake alone lets running jobs go on to their ends after SIGTERM. KeyboardInterrupt is its way to start
    nothing more, to cancel jobs on a cluster and to wait for those on this machine.
    """
    for number in REQUESTS:
        signal.signal(number, _pass_on)


def _pass_on(number: int, frame: FrameType | None) -> None:
    received.append(number)
    if impatient(received):
        _kill_descendants()
        os.write(2, b"\nEnded at once. The same command goes on from what was finished or saved before.\n")
        os._exit(128 + number)  # Snakemake would call its jobs failed
    if len(received) > 1:
        return
    os.write(2, b"\nStopping: training saves first, other steps end. Ctrl-C again ends all at once.\n")
    threading.Thread(target=_tell_verbs, daemon=True).start()
    raise KeyboardInterrupt


def _tell_verbs() -> None:
    """SIGTERM to each job's verb, once, until this process ends."""
    import psutil

    told: set[int] = set()
    while True:
        for process in _verbs_below(psutil.Process()):
            if process.pid not in told:
                told.add(process.pid)
                with contextlib.suppress(psutil.Error):
                    process.terminate()
        time.sleep(LOOK_AGAIN)


def _verbs_below(process: "psutil.Process") -> "Iterator[psutil.Process]":
    """Not what a verb started itself, nor its shell and tee, which end with it, nor an scancel."""
    import psutil

    for child in process.children():
        with contextlib.suppress(psutil.Error):
            if any(Path(part).name in VERB for part in child.cmdline()[:3]):
                yield child
            else:
                yield from _verbs_below(child)


def _kill_descendants() -> None:
    import psutil

    found = psutil.Process().children(recursive=True)
    for process in found:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(found, timeout=DYING)
