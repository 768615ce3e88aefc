"""The sandbox against HumanEval: every canonical solution passes its tests, every `return None` fails them.

python scripts/humaneval.py --data HumanEval.jsonl.gz [--slots 2] [--seconds 10]
"""

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from zgcm.errors import ZgcmError
from zgcm.rl.formats import humaneval_test
from zgcm.rl.prompts import read_rows
from zgcm.rl.sandbox.attest import attested_sandbox


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10.0, help="for one program")
    options = parser.parse_args()
    rows = [row for _, row in read_rows(options.data)]
    programs = [row["prompt"] + row["canonical_solution"] for row in rows]
    empty = [row["prompt"] + "    return None\n" for row in rows]
    tests = [humaneval_test(row) for row in rows]
    started = time.monotonic()
    with ThreadPoolExecutor(options.slots) as threads, attested_sandbox(options.slots) as (judge, _):

        def passed(program: str, test: str) -> bool:
            return judge.call(program, test, options.seconds).passed

        right = list(threads.map(passed, programs, tests))
        wrong = list(threads.map(passed, empty, tests))
    names = [str(row["task_id"]) for row in rows]
    summary = {
        "canonical_passed": sum(right),
        "return_none_passed": sum(wrong),
        "tasks": len(rows),
        "seconds": round(time.monotonic() - started, 1),
        "wrong": [name for name, one, other in zip(names, right, wrong, strict=True) if not one or other],
    }
    print(json.dumps(summary))
    if summary["wrong"]:
        raise SystemExit(1)


if __name__ == "__main__":
    try:
        main()
    except ZgcmError as error:
        sys.exit(f"humaneval: {error}")
