"""Verifier processes against one of them alone, and what pairs that hang cost.

    .venv/bin/python scripts/bench/reward_pool.py

One JSON line; exit status 1 when a limit is broken. `scaling`: pairs a second of a pool with a process a
core, over cores x those of one process, in turns, medians (0.8 is the limit). It wants an idle machine; on a
busy one look at `efficiency`, the share of the pool's processor seconds that verifies: the rest hands out
pairs. `hanging`: with one pair in a hundred that never ends, worker seconds beyond those of the same pairs
without it, over what the hanging pairs may cost: their deadline and the start of a new process each (1, give
or take what else the machine does; 1.5 is the limit). `timeouts`: every hanging pair. `wrong`: verdicts of
the other pairs that changed; 0.
"""

import argparse
import json
import os
import statistics
import time
from pathlib import Path

import psutil

from zgcm.rl.completion import visible_answer
from zgcm.rl.rewards.math import candidate, decided_without_parsing
from zgcm.rl.rewards.pool import Verdict, VerifierPool, verifier_pool

PAIRS = Path(__file__).parents[2] / "tests/data/math_pairs.jsonl"
HANGS = (r"\sum_{k=1}^{10^9} k^{1/3}", "1")
EVERY = 100
SCALING, HANGING = 0.8, 1.5


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--deadline", type=float, default=8.0, help="seconds a pair")
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    pairs = hard_pairs()
    with verifier_pool(1, 60.0) as one, verifier_pool(cores, 60.0) as many:
        timed(one, pairs[:cores]), timed(many, pairs[: 4 * cores])  # all processes up
        alone, pooled, shares = [], [], []
        for _ in range(options.rounds):
            alone.append(timed(one, pairs)[0])
            before = spent(many)
            pooled.append(timed(many, pairs)[0])
            working, handing = (later - earlier for later, earlier in zip(spent(many), before, strict=True))
            shares.append(working / (working + handing))
    single, pool = len(pairs) / statistics.median(alone), len(pairs) / statistics.median(pooled)
    result = {
        "cores": cores,
        "single_per_second": round(single, 1),
        "pool_per_second": round(pool, 1),
        "scaling": round(pool / single / cores, 2),
        "efficiency": round(statistics.median(shares), 2),
        **hanging(pairs, cores, options.deadline, options.rounds),
    }
    print(json.dumps(result))
    raise SystemExit(bool(broken(result)))


def broken(result: dict[str, float]) -> list[str]:
    """Which limits a result breaks."""
    found = ["scaling"] * (result["scaling"] < SCALING) + ["hanging"] * (result["hanging"] > HANGING)
    others = ["timeouts"] * (result["timeouts"] != result["hanging_pairs"])
    return found + others + ["wrong"] * (result["wrong"] > 0)


def hard_pairs() -> list[tuple[str, str]]:
    """Pairs that need a process: no shortcut decides them."""
    rows = [json.loads(line) for line in PAIRS.read_text().splitlines()]
    found = [(candidate(visible_answer(f"</think>{row['answer']}", ()) or ""), row["gold"]) for row in rows]
    return [pair for pair in found if decided_without_parsing(*pair) is None]


def hanging(pairs: list[tuple[str, str]], cores: int, deadline: float, rounds: int) -> dict[str, float]:
    mixed = list(pairs)
    places = range(0, len(mixed) + len(mixed) // EVERY, EVERY)
    for place in places:
        mixed.insert(place, HANGS)
    with verifier_pool(cores, deadline) as pool:
        timed(pool, pairs[: 4 * cores])
        extra = []
        for _ in range(rounds):
            clean, expected = timed(pool, pairs)
            loaded, found = timed(pool, mixed)
            extra.append(loaded - clean)
        pool.verifiers[0].stop()
        begun = time.monotonic()
        pool.verifiers[0].start()
        start = time.monotonic() - begun
    hung = {place for place, pair in enumerate(mixed) if pair == HANGS}
    others = [verdict for place, verdict in enumerate(found) if place not in hung]
    may_cost = len(hung) * (deadline + start)
    return {
        "hanging_pairs": len(hung),
        "timeouts": sum(verdict.failure == "timeout" for verdict in found),
        "hanging": round(statistics.median(extra) * cores / may_cost, 2),
        "wrong": sum(one.equal != other.equal for one, other in zip(others, expected, strict=True)),
    }


def spent(pool: VerifierPool) -> tuple[float, float]:
    """Processor seconds of the pool's processes since they started, and of this one."""
    workers = [psutil.Process(verifier.process.pid) for verifier in pool.verifiers if verifier.process]
    return sum(sum(worker.cpu_times()[:2]) for worker in workers), time.process_time()


def timed(pool: VerifierPool, pairs: list[tuple[str, str]]) -> tuple[float, list[Verdict]]:
    begun = time.monotonic()
    verdicts = pool.judge(pairs)
    return time.monotonic() - begun, verdicts


if __name__ == "__main__":
    main()
