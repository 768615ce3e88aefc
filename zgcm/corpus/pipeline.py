"""The engine: run steps over samples in order, stop at a drop, count everything."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from zgcm.config.profiles import line_of
from zgcm.corpus.sample import DROP, Sample
from zgcm.errors import ZgcmError

Settings = Mapping[str, Any]
"""Every key of every step, with its default or the recipe's value."""
Step = Callable[[Sample, Settings], None]
"""Changes the sample in place. Its name is the function's."""


def run_steps(
    samples: Iterable[Sample], steps: list[Step], settings: Settings, counters: Counter[str]
) -> Iterator[Sample]:
    """Yield every sample, dropped ones too, after its steps.

    Counts `input`, `output.<decision>`, `step.<name>.seen` and, where a step changed the decision,
    `step.<name>.<decision>`. Raises ZgcmError with the line of a user's step that fails, and the record.
    """
    named = [(step.__name__, f"step.{step.__name__}.seen", step) for step in steps]
    for sample in samples:
        counters["input"] += 1
        for name, seen, step in named:
            before = sample.decision
            try:
                step(sample, settings)
            except Exception as error:
                raise _told(error, step, sample) from error
            counters[seen] += 1
            if sample.decision != before:
                counters[f"step.{name}.{sample.decision}"] += 1
            if sample.decision == DROP:
                break
        counters[f"output.{sample.decision}"] += 1
        yield sample


def _told(error: Exception, step: Step, sample: Sample) -> Exception:
    """What a failing step of a profile amounts to; errors of other steps are ours and stay as they are."""
    if isinstance(error, ZgcmError) or step.__module__.startswith("zgcm.corpus.steps."):
        return error
    return ZgcmError(
        f"The profile's step {step.__name__} fails on a record",
        where=line_of(error, step.__code__.co_filename),
        found=f"record {sample.source_id}: {type(error).__name__}: {error}",
        hint="records may lack any field, or hold another kind of value in it",
    )  # fmt: skip
