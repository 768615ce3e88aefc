"""One verifier process: tasks come in as JSON lines, verdicts go out. Started and killed by rewards.pool.

python -m zgcm.rl.rewards.worker DEADLINE_SECONDS TOLERANCE DOMAIN... [--open-instruct DIRECTORY SHA256]
["math", answer, label] -> is it equal; ["if", answer, ifeval_spec] -> which constraints hold
"""

import argparse
import json
import math
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

MEMORY_BYTES = 4 << 30
GRACE_SECONDS = 2
"""The parent kills at the deadline; this much later an orphan's own alarm does, even in a long C call."""


def main() -> None:
    arguments = _arguments()
    deadline = arguments.deadline
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is the parent's to handle
    verdicts = sys.stdout
    sys.stdout = sys.stderr  # a library that prints must not break the protocol
    judges = {domain: READY[domain](arguments) for domain in arguments.domains}
    print("ready", file=verdicts, flush=True)
    for line in sys.stdin:
        signal.alarm(math.ceil(deadline) + GRACE_SECONDS)
        domain, *task = json.loads(line)
        try:
            answer: dict[str, Any] = {"verdict": judges[domain](*task)}
        except (Exception, RecursionError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:200]}
        signal.alarm(0)
        print(json.dumps(answer), file=verdicts, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("deadline", type=float)
    parser.add_argument("tolerance", type=float)
    parser.add_argument("domains", nargs="+")
    parser.add_argument("--open-instruct", nargs=2)
    return parser.parse_args()


def _mathematics(arguments: argparse.Namespace) -> Callable[[str, str], bool]:
    from zgcm.rl.rewards.math import equal

    equal(
        r"\sqrt{x^2+2x+1}=\frac{1}{2}", r"y=2\cos x"
    )  # builds the parsers: 0.5 s that no pair's deadline should pay
    return lambda found, gold: equal(found, gold, arguments.tolerance)


def _instructions(arguments: argparse.Namespace) -> Callable[[str, list[dict[str, Any]]], list[bool]]:
    from zgcm.rl.rewards.instruction import satisfied
    from zgcm.rl.rewards.registry import Checkout, registry

    probe = {"instruction_id": "language:response_language", "kwargs": {"language": "en"}}
    satisfied("This loads the profiles of languages: 1 s that no answer's deadline should pay.", [probe])
    if arguments.open_instruct is None:
        return satisfied
    directory, sha256 = arguments.open_instruct
    checkout = Checkout(Path(directory), sha256)
    registry(checkout)
    return lambda answer, spec: satisfied(answer, spec, checkout)


READY: dict[str, Callable[[argparse.Namespace], Callable[..., Any]]] = {
    "math": _mathematics,
    "if": _instructions,
}
"""Domain -> makes its judge."""


if __name__ == "__main__":
    main()
