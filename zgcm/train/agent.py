"""torch.distributed.run, deaf to requests to stop: its trainers are told themselves.

Left alone it would answer SIGTERM and SIGINT by giving the trainers 30 s to save and then killing them. A
terminal sends it Ctrl-C and Slurm sends it SIGTERM, whatever zgcm.train.launch does.
"""

import signal
import sys
from types import FrameType

HANDLED = "SIGHUP,SIGQUIT"


def be_deaf(number: int, frame: FrameType | None) -> None:
    """Does nothing. A handler and not SIG_IGN, which the trainers would inherit."""


if __name__ == "__main__":
    for request in (signal.SIGINT, signal.SIGTERM):
        signal.signal(request, be_deaf)
    from torch.distributed.run import main

    main(["--signals-to-handle", HANDLED, *sys.argv[1:]])
