"""The engine: run steps over samples in order, stop at a drop, count everything."""

import difflib
import linecache
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from zgcm.config.profiles import line_of
from zgcm.corpus.sample import DROP, Sample, unwritable
from zgcm.errors import ZgcmError
from zgcm.stopping import Interrupted

Settings = Mapping[str, Any]
"""Every key of every step, with its default or the recipe's value."""
Step = Callable[[Sample, Settings], None]
"""Changes the sample in place. Its name is the function's."""


def run_steps(
    samples: Iterable[Sample], steps: list[Step], settings: Settings, counters: Counter[str]
) -> Iterator[Sample]:
    """Yield every sample, dropped ones too, after its steps.

    Counts `input`, `output.<decision>`, `step.<name>.seen` and, where a step changed the decision,
    `step.<name>.<decision>`. Raises ZgcmError with the line of a user's step that fails, or leaves what
    cannot be written, and the record.
    """
    named = [(step.__name__, f"step.{step.__name__}.seen", step, not _is_ours(step)) for step in steps]
    for sample in samples:
        counters["input"] += 1
        for name, seen, step, of_a_user in named:
            before = sample.decision
            try:
                step(sample, settings)
            except Interrupted:
                raise
            except (Exception, SystemExit) as error:  # whose code may be 0, and would pass for success
                raise _told(error, step, sample, settings) from error
            if of_a_user and (problem := unwritable(sample)):
                raise _told(TypeError(problem), step, sample, settings)
            counters[seen] += 1
            if sample.decision != before:
                counters[f"step.{name}.{sample.decision}"] += 1
            if sample.decision == DROP:
                break
        counters[f"output.{sample.decision}"] += 1
        yield sample


def _is_ours(step: Step) -> bool:
    return step.__module__.startswith("zgcm.corpus.")


def _told(error: BaseException, step: Step, sample: Sample, settings: Settings) -> BaseException:
    """What a failing step of a profile amounts to; errors of other steps are ours and stay as they are."""
    if isinstance(error, ZgcmError) or step.__module__.startswith("zgcm.corpus.steps."):
        return error
    try:
        said = str(error)
    except Exception:  # an exception of the user's may fail at this too
        said = "an error that cannot be printed"
    where = line_of(error, step.__code__.co_filename)
    if isinstance(error, KeyError) and _is_a_setting(said, where):
        near = difflib.get_close_matches(said.strip("'"), settings, n=1)
        return ZgcmError(
            f"The profile's step {step.__name__} asks for a setting that there is not", where=where,
            found=said, expected="a key of cleaning, or a name in the profile's `settings`",
            hint=f"did you mean {near[0]!r}?" if near else "Profile(..., settings={name: default}) adds one",
        )  # fmt: skip
    return ZgcmError(
        f"The profile's step {step.__name__} fails on a record",
        where=where,
        found=f"record {sample.source_id}: {type(error).__name__}: {said}",
        hint="records may lack any field, or hold another kind of value in it",
    )  # fmt: skip


def _is_a_setting(key: str, where: str) -> bool:
    """Whether the line `file:number` of a step takes the key (in quotes) from its settings, not from the
    record."""
    file, _, number = where.rpartition(":")
    linecache.checkcache(file)
    line = linecache.getline(file, int(number)) if number.isdigit() else ""
    return f"settings[{key}]" in line.replace('"', "'")
