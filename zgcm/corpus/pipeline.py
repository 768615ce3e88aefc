"""The engine: run steps over samples in order, stop at a drop, count everything (fact sheet 1.3)."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from zgcm.corpus.sample import DROP, Sample

Settings = Mapping[str, Any]
"""Every key of every step, with its default or the recipe's value."""
Step = Callable[[Sample, Settings], None]
"""Changes the sample in place. Its name is the function's."""


def run_steps(
    samples: Iterable[Sample], steps: list[Step], settings: Settings, counters: Counter[str]
) -> Iterator[Sample]:
    """Yield every sample, dropped ones too, after its steps.

    Counts `input`, `output.<decision>`, `step.<name>.seen` and, where a step changed the decision,
    `step.<name>.<decision>`.
    """
    named = [(step.__name__, f"step.{step.__name__}.seen", step) for step in steps]
    for sample in samples:
        counters["input"] += 1
        for name, seen, step in named:
            before = sample.decision
            step(sample, settings)
            counters[seen] += 1
            if sample.decision != before:
                counters[f"step.{name}.{sample.decision}"] += 1
            if sample.decision == DROP:
                break
        counters[f"output.{sample.decision}"] += 1
        yield sample
