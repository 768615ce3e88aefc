"""What `zgcm run` shows of a Snakemake run: one line a finished job, and the log's end of a failed one.

A Snakemake logger plugin (class `LogHandler`), registered by `zgcm run` itself: nothing needs installing.
Trainers print their own lines between these: their jobs write to the terminal as well as to their log.
"""

import difflib
import logging
import os
import re
import sys
import time
from pathlib import Path

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from zgcm.config.load import load_recipe
from zgcm.config.recipe import Recipe
from zgcm.errors import ZgcmError
from zgcm.layout import Layout
from zgcm.numbers import counted
from zgcm.stopping import was_requested

LOG_LINES = 20  # of a failed job's log: a verb's error is one paragraph, a traceback's end needs about 20
SHOWN = ("Nothing to be done", "Complete log")
SAID_BETTER = ("CalledProcessError", "At least one job did not complete")  # by `on_error`

begun: list[str] = []
"""What the jobs that this process started do."""
asked: list[str] = []
"""The targets of the command line, as the user wrote them: Snakemake's errors do not all name them."""


class Teller(LogHandlerBase):
    """Says on stdout what happens, in place of Snakemake."""

    writes_to_stream = True
    writes_to_file = False
    has_filter = True
    has_formatter = True
    needs_rulegraph = False


class LogHandler(Teller):
    """Turns Snakemake's events into lines on stdout."""

    def __post_init__(self) -> None:
        self.started: dict[int, float] = {}
        self.sentences: dict[int, str] = {}
        self.finished: list[int] = []
        self.failed: set[int] = set()
        self.targets = 0
        """Jobs of rule `all`, which only names what is wanted: no work, so not counted, as in the dry run."""

    def emit(self, record: logging.LogRecord) -> None:
        event = getattr(record, "event", None)
        if event == LogEvent.JOB_INFO:
            self.on_start(record)
        elif event == LogEvent.JOB_FINISHED:
            self.finished.append(record.job_id)  # type: ignore[attr-defined]
        elif event == LogEvent.RUN_INFO:
            self.on_plan(record.stats)  # type: ignore[attr-defined]
        elif event == LogEvent.PROGRESS:
            self.on_progress(record.done, record.total)  # type: ignore[attr-defined]
        elif event == LogEvent.JOB_ERROR:
            self.on_error(record)
        else:
            self.on_message(str(record.msg), important=record.levelno >= logging.WARNING)

    def on_message(self, message: str, important: bool) -> None:
        said = self.started and any(part in message for part in SAID_BETTER)
        if (important and not said) or message.startswith(SHOWN):
            show(in_words(message))

    def on_plan(self, stats: dict[str, int]) -> None:
        self.targets = stats.get("all", 0)
        show(f"{counted(stats['total'] - self.targets, 'job')} to do (what and why: zgcm run -n)")

    def on_start(self, record: logging.LogRecord) -> None:
        job = record.__dict__
        self.started[job["jobid"]] = time.monotonic()
        self.sentences[job["jobid"]] = job["rule_msg"] or job["rule_name"]
        begun.append(self.sentences[job["jobid"]])
        if "stage" in (job["wildcards"] or {}):  # minutes or weeks: say that it has begun
            show(f"        {self.sentences[job['jobid']]} ...")

    def on_progress(self, done: int, total: int) -> None:
        """Snakemake reports a finished job first and the count after it."""
        total -= self.targets
        width = len(str(total))
        for job in self.finished:
            seconds = time.monotonic() - self.started[job]
            if done > total:
                show(self.sentences[job])
            else:
                show(f"[{done:{width}}/{total}] {self.sentences[job]} ({seconds:.1f} s)")
        self.finished.clear()

    def on_error(self, record: logging.LogRecord) -> None:
        job = record.__dict__
        if job["jobid"] in self.failed:  # Snakemake repeats its errors at the end
            return
        self.failed.add(job["jobid"])
        if was_requested():
            show(f"Stopped: {self.sentences.get(job['jobid'], job['rule_name'])}")
            return
        show(f"FAILED: {self.sentences.get(job['jobid'], job['rule_name'])}")
        for log in map(Path, job["log"] or []):
            if log.is_file():
                lines = log.read_text(errors="replace").splitlines()
                # Snakemake works in --directory, the user need not
                show(f"The end of {log.absolute()}:", *(f"  {line}" for line in lines[-LOG_LINES:]))


def recipe_of_workflow() -> Recipe:
    """The one that the Snakefile has merged and checked."""
    return load_recipe([Path(os.environ["ZGCM_RECIPE"])])


def in_words(message: str) -> str:
    """A message of Snakemake's. Of a target that nothing makes, or a rule of many files, it does
    not say what there is instead."""
    unknown = re.search(r"^No rule to produce (.+?) \(if you use input functions", message, re.M)
    if unknown is None and "Target rules may not contain wildcards" not in message:
        return message
    stages = list(recipe_of_workflow().stages)
    target = (
        unknown[1] if unknown else ", ".join(word for word in asked if "/" not in word and word not in stages)
    )
    name = target.removeprefix(f"{Layout().root}/").removesuffix("/done")
    near = difflib.get_close_matches(name, stages, n=1, cutoff=0.6)
    error = ZgcmError(
        "Nothing makes this target"
        if unknown
        else "That is a step of each stage or file, and no target alone",
        where=target,
        expected=f"a stage ({', '.join(stages)}), or a file below results/",
        hint=f"if {near[0]} is meant: zgcm run {near[0]}" if near else "zgcm run -n lists the steps",
    )
    return f"zgcm: {error.paragraph()}"


def show(*lines: str) -> None:
    """A reader who leaves (`| head -1`) ends what is said, also by jobs that start later, not the work."""
    try:
        print(*lines, sep="\n", file=sys.stdout, flush=True)
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
