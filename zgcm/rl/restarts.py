"""A process of Ray's that was lost: all of them anew, from the last recover point, a few times.

Whatever the run had beyond that point is made again, digit for digit; a whole start is the one way to bring a
process group and its transfers back. Errors of our own (a gate that does not hold, a checker that fails) come
again with the same inputs, so they are not tried again.
"""

from collections.abc import Callable
from pathlib import Path

from zgcm import stopping
from zgcm.errors import ZgcmError
from zgcm.rl import recover
from zgcm.rl.actors import ActorLost
from zgcm.stopping import Interrupted, Stopped, how_far, pause

BACK_OFF_SECONDS = (5.0, 30.0, 120.0)
"""Before each new start; then the error is the stage's. A new recover point begins the count again."""


def until_kept[T](name: str, steps: int, run: Path, train: Callable[[], T], say: Callable[[str], None]) -> T:
    """What `train` returns, called again when it lost a process. Raises its error otherwise; Stopped when a
    stop was asked: Slurm's SIGTERM reaches Ray's processes too, which may die of it during the last step."""
    try:
        return _until_kept(name, steps, run, train, say)
    except Interrupted as error:
        raise _stopped(name, steps, run) from error


def _stopped(name: str, steps: int, run: Path) -> Stopped:
    return Stopped(stopping.received[0], how_far(name, recover.newest_step(run), steps))


def _until_kept[T](name: str, steps: int, run: Path, train: Callable[[], T], say: Callable[[str], None]) -> T:
    lost = 0
    while True:
        begun_at = recover.newest_step(run)
        try:
            return train()
        except Stopped:
            raise
        except Exception as error:
            if stopping.received:
                say(f"{name}: failed after the request to stop: {error}")
                raise _stopped(name, steps, run) from error
            loss = as_lost(error)
            if loss is None:
                raise
            reached = recover.newest_step(run)
            lost = 1 if reached > begun_at else lost + 1
            if lost > len(BACK_OFF_SECONDS):
                raise loss from error
        seconds = BACK_OFF_SECONDS[lost - 1]
        why = " ".join(f"{loss.what} ({loss.found})".split())
        say(
            f"{name}: {why}; a new start in {seconds:g} s, from step {reached} "
            f"({lost} of {len(BACK_OFF_SECONDS)} without a recover point in between)"
        )
        pause(seconds)


def as_lost(error: Exception) -> ActorLost | None:
    """`error` when a lost process is behind it; Ray's own errors outside a call mean the same."""
    if isinstance(error, ActorLost):
        return error
    if isinstance(error, ZgcmError):
        return None
    from ray.exceptions import RayError

    if not isinstance(error, RayError):
        return None
    return ActorLost("Ray failed", found=f"{type(error).__name__}: {error}")
