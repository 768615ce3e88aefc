"""One verifier process: pairs come in as JSON lines, verdicts go out. Started and killed by rewards.pool.

python -m zgcm.rl.rewards.worker DEADLINE_SECONDS TOLERANCE
"""

import json
import math
import resource
import signal
import sys

MEMORY_BYTES = 4 << 30
GRACE_SECONDS = 2
"""The parent kills at the deadline; this much later an orphan's own alarm does, even in a long C call."""


def main() -> None:
    deadline, tolerance = map(float, sys.argv[1:])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is the parent's to handle
    verdicts = sys.stdout
    sys.stdout = sys.stderr  # a library that prints must not break the protocol

    from zgcm.rl.rewards.math import equal

    equal(
        r"\sqrt{x^2+2x+1}=\frac{1}{2}", r"y=2\cos x"
    )  # builds the parsers: 0.5 s that no pair's deadline should pay
    print("ready", file=verdicts, flush=True)
    for line in sys.stdin:
        signal.alarm(math.ceil(deadline) + GRACE_SECONDS)
        found, gold = json.loads(line)
        try:
            answer: dict[str, bool | str] = {"equal": equal(found, gold, tolerance)}
        except (Exception, RecursionError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:200]}
        signal.alarm(0)
        print(json.dumps(answer), file=verdicts, flush=True)


if __name__ == "__main__":
    main()
