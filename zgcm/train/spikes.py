"""Loss spikes: see one, and decide which batches a run does without. No torch here.

The trainer's `Detector` looks at every iteration. When it sees a spike, the trainer ends. With `policy: stop`
the run is stopped. With `skip` and `rewind` the trainer leaves `spike.json`; the launcher makes a decision of
it (`spikes.json`) and starts the trainer again from a checkpoint before the batches that are left out.
A decision depends on iterations alone, never on which checkpoints there happen to be, and the detector's
state on `loss.jsonl` alone: so a run that was killed decides as one that was not.
"""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zgcm.errors import ZgcmError
from zgcm.io import read_json, write_json

if TYPE_CHECKING:
    from zgcm.config.stages import Spikes

SEEN, DECIDED = "spike.json", "spikes.json"


@dataclass(frozen=True)
class Spike:
    first: int
    """Its first abnormal iteration."""
    last: int
    what: str
    """In words: what was found, and what would have been normal."""


@dataclass(frozen=True)
class Decision:
    """The weights after `back_to` are taken up again, and iterations back_to + 1 ... last learn nothing."""

    first: int
    last: int
    back_to: int
    what: str


class SpikeError(ZgcmError):
    """Training must not go on as it did."""

    def __init__(self, stage: str, spike: Spike, last_good: int | None = None) -> None:
        """`last_good`: iteration of the newest checkpoint from before the spike."""
        self.stage, self.spike = stage, spike
        until = f" to {spike.last}" if spike.last != spike.first else ""
        super().__init__(
            "Training stopped at a loss spike",
            where=f"{stage}, iteration {spike.first}{until}",
            found=spike.what + (f"; last good checkpoint: iteration {last_good}" if last_good else ""),
            hint="look at the data of these iterations and at the learning rate. To go on without these "
            "batches: spikes.policy skip or rewind. To go on as it is: more spikes.deviations or patience",
        )


class TooMany(ZgcmError):
    """More spikes than the recipe allows."""


class Detector:
    """Mean and standard deviation over the last `window` iterations, of loss and gradient norm each."""

    def __init__(self, settings: "Spikes", history: Iterable[dict[str, Any]] = ()) -> None:
        """`history`: the records of loss.jsonl so far. The last window + patience of them decide, so the
        state after a restart is that of a run that never stopped."""
        self.settings = settings
        self.seen: dict[str, deque[float]] = {
            name: deque(maxlen=settings.window) for name in ("loss", "grad_norm")
        }
        self.in_a_row = 0
        for record in deque(history, maxlen=settings.window + settings.patience):
            self.see(record)

    def see(self, record: dict[str, Any]) -> Spike | None:
        """The spike that this iteration completes, if it does."""
        found = [text for name in self.seen if (text := self.abnormal(name, record[name]))]
        for name, values in self.seen.items():
            values.append(record[name])
        self.in_a_row = self.in_a_row + 1 if found else 0
        if self.in_a_row < self.settings.patience:
            return None
        iteration = record["iteration"]
        return Spike(iteration - self.settings.patience + 1, iteration, "; ".join(found))

    def abnormal(self, name: str, value: float) -> str:
        values = self.seen[name]
        if len(values) < (self.settings.window + 1) // 2:
            return ""
        mean = math.fsum(values) / len(values)
        deviation = math.sqrt(math.fsum((other - mean) ** 2 for other in values) / len(values))
        limit = mean + self.settings.deviations * deviation
        return f"{name} {value:.4g} > {limit:.4g}" if value > limit else ""


def check_finite(stage: str, iteration: int, **values: float) -> None:
    """Raises SpikeError: what is not a finite number is a spike at once."""
    for name, value in values.items():
        if not math.isfinite(value):
            raise SpikeError(stage, Spike(iteration, iteration, f"{name} is not finite ({value!r})"))


def report(run: Path, spike: Spike) -> None:
    """The trainer's last act. Several ranks may see the same one."""
    write_json(run / SEEN, asdict(spike))


def pending(run: Path) -> Spike | None:
    """A spike that was seen and not decided on yet."""
    if not (run / SEEN).exists():
        return None
    seen = read_json(run / SEEN)
    return Spike(seen["first"], seen["last"], seen["what"])


def decisions(run: Path) -> list[Decision]:
    if not (run / DECIDED).exists():
        return []
    made = read_json(run / DECIDED, kind=list)
    return [Decision(each["first"], each["last"], each["back_to"], each["what"]) for each in made]


def decide(run: Path, stage: str, settings: "Spikes", beginning: int) -> list[Decision]:
    """All decisions, a new one included when the attempt before ended in a spike.

    `beginning` is the iteration that the stage starts from. Raises TooMany at the recipe's limit.
    """
    made, spike = decisions(run), pending(run)
    if spike is None:
        return made
    if spike.last not in {decision.last for decision in made}:
        if len(made) >= settings.limit:
            (run / SEEN).unlink()
            raise TooMany(
                f"Training stopped: spike number {len(made) + 1}, and `spikes.limit` is {settings.limit}",
                where=f"{stage}, iteration {spike.first}",
                found=spike.what,
                hint=f"{run / DECIDED} lists them; mend the cause (learning rate, data), or raise the limit",
            )
        before = settings.rewind_iterations if settings.policy == "rewind" else 0
        back_to = max(beginning, spike.first - 1 - before)
        made = [*made, Decision(spike.first, spike.last, back_to, spike.what)]
        write_json(run / DECIDED, [asdict(decision) for decision in made])
    (run / SEEN).unlink()
    return made


def left_out(made: Iterable[Decision]) -> list[tuple[int, int]]:
    """Spans of iterations (first, last) that learn nothing."""
    return [(decision.back_to + 1, decision.last) for decision in made]


def is_usable(iteration: int, known: int, made: list[Decision]) -> bool:
    """Whether a checkpoint may be resumed from that was saved when the first `known` decisions were made:
    it must not have learned what a later one leaves out."""
    return all(iteration <= decision.back_to for decision in made[known:])


def reach(settings: "Spikes") -> int:
    """How many iterations before the newest one a decision may go back to."""
    return settings.patience + (settings.rewind_iterations if settings.policy == "rewind" else 0)
