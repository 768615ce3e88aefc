"""torch.distributed.run that passes a request to stop (SIGTERM) on to its trainers and waits until they save.
Its exit code is that of the trainer that failed first.

Left alone it would give them 30 s and then kill them, and end with 1 whatever had failed. Ctrl-C, which a
terminal sends to every process, it leaves to zgcm.train.launch, which answers with SIGTERM.
"""

import contextlib
import signal
import sys
from types import FrameType

import psutil

HANDLED = "SIGHUP,SIGQUIT"


def pass_on(number: int, frame: FrameType | None) -> None:
    """SIGTERM to the trainers. Before they are started it ends; but not on several nodes, where it cannot
    tell that from the time after their end, while those of another node still save."""
    trainers = psutil.Process().children()
    for trainer in trainers:
        with contextlib.suppress(psutil.NoSuchProcess):
            trainer.terminate()
    if not trainers and "--standalone" in sys.argv:
        sys.exit(128 + number)


def be_deaf(number: int, frame: FrameType | None) -> None:
    """Does nothing. A handler and not SIG_IGN, which the trainers would inherit."""


def exit_code(code: int) -> int:
    """As shells say it: of a process that a signal ended (a negative code), 128 and the signal's number."""
    return code if code > 0 else 128 - code


if __name__ == "__main__":
    signal.signal(signal.SIGINT, be_deaf)
    signal.signal(signal.SIGTERM, pass_on)
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main

    try:
        main(["--signals-to-handle", HANDLED, *sys.argv[1:]])
    except ChildFailedError as error:
        print(error, file=sys.stderr)
        sys.exit(exit_code(error.get_first_failure()[1].exitcode))
