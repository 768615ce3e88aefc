"""What the demo's generators share: which questions are held out, which are asked, in which manner answered.

one_in_ten("38+47")                                       # held out of every text?
draw(questions, 64, "prompts 0", ...)                     # different ones, in the seed's order
in_two_manners(questions, 0, 100, 0.5, "talks 0", ...)    # conversations, some of them careless
"""

import hashlib
import random
from collections.abc import Sequence
from typing import Literal

from zgcm.errors import ZgcmError

Split = Literal["train", "valid"]


def one_in_ten(text: str) -> bool:
    """By the text's hash."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) % 10 == 0


def draw[Q](every: Sequence[Q], count: int, seed: str, what: str, hint: str) -> list[Q]:
    """`count` of the questions, in an order of their own. `what` names them in the ZgcmError that is raised
    when there are fewer, `hint` says what to do then."""
    _require(count, len(every), what, hint)
    shuffled = list(every)
    random.Random(seed).shuffle(shuffled)
    return shuffled[:count]


def in_two_manners[Q](
    every: Sequence[Q], start: int, count: int, careless_share: float, seed: str, hint: str
) -> list[tuple[int, bool, Q]]:
    """(index, is it answered carelessly?, question) of conversations `start` to `start + count` of one fixed
    sequence, no question twice in one manner.

    `every` holds different questions in a fixed order. Raises ZgcmError when it holds too few.
    """
    rng = random.Random(seed)
    unused = {careless: iter(rng.sample(every, len(every))) for careless in (True, False)}
    manners = [rng.random() < careless_share for _ in range(start + count)]
    _require(max(map(manners.count, unused)), len(every), "conversations of one manner", hint)
    sequence = [(index, careless, next(unused[careless])) for index, careless in enumerate(manners)]
    return sequence[start:]


def _require(wanted: int, available: int, what: str, hint: str) -> None:
    if wanted > available:
        raise ZgcmError(
            f"The demo generator has fewer {what} than asked for",
            found=f"{wanted:,} asked for",
            expected=f"at most {available:,}",
            hint=hint,
        )
