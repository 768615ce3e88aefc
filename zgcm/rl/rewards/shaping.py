"""The reward of one response: raw correctness, less a penalty on long right answers (as published)."""

import math
from collections.abc import Sequence

from zgcm.config.rl import LengthPenalty
from zgcm.errors import ZgcmError

FINISHED = ("stop", "length", "abort")


def needs_verdict(finish_reason: str, tokens: int, max_new_tokens: int) -> bool:
    """Whether the verifier decides; a response cut off at the length limit is wrong without it.

    Raises ZgcmError for what can only be a broken rollout: an aborted, unknown or overlong response must
    never count as a wrong answer.
    """
    if finish_reason not in FINISHED or finish_reason == "abort":
        raise ZgcmError(
            "A rollout did not finish", found=f"finish reason {finish_reason!r}", expected="stop or length"
        )
    if tokens > max_new_tokens:
        raise ZgcmError(
            "A response is too long", found=f"{tokens} tokens", expected=f"at most {max_new_tokens}"
        )
    return finish_reason == "stop"


def shaped(raw: float, tokens: int, penalty: LengthPenalty | None) -> float:
    """raw x (1 - max x clip((tokens - start) / (end - start), 0, 1)); a wrong answer stays exactly 0. Only
    rewards of 0 or 1 have a penalty; without one any of [0, 1] stays as it is.

    >>> shaped(1.0, 65536, LengthPenalty(start=16384, end=65536, max=0.05))
    0.95
    """
    if not 0.0 <= raw <= 1.0 or (penalty is not None and raw not in (0.0, 1.0)):
        expected = "0 to 1" if penalty is None else "0 or 1"
        raise ZgcmError("A raw reward is out of range", found=repr(raw), expected=expected)
    if penalty is None or raw == 0.0:
        return raw
    share = (tokens - penalty.start) / (penalty.end - penalty.start)
    return raw * (1.0 - penalty.max * min(max(share, 0.0), 1.0))


def mean(values: Sequence[float]) -> float:
    """Exactly rounded, so the order of the terms cannot change a digit."""
    return math.fsum(values) / len(values)
