"""What Snakemake would run, as data: a logger plugin that prints each job of a dry run as one JSON line.

Run as a script it is Snakemake's command line with that plugin; `dry_run` calls it in its own process, since
Snakemake keeps global state.
"""

import json
import logging
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

CHECKOUT = Path(__file__).parents[2]


class LogHandler(LogHandlerBase):
    writes_to_stream = True
    writes_to_file = False
    has_filter = True
    has_formatter = True
    needs_rulegraph = False

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "event", None) == LogEvent.JOB_INFO:
            job = record.__dict__
            names = ("rule_name", "rule_msg", "reason", "input", "output", "log", "benchmark", "threads")
            facts = {name: job[name] for name in names} | {"wildcards": dict(job["wildcards"] or {})}
            facts["resources"] = {key: str(value) for key, value in job["resources"].items()}
            print(json.dumps(facts, default=list))
        elif record.levelno >= logging.WARNING:
            print(record.msg, file=sys.stderr)


@dataclass
class Job:
    rule_name: str
    rule_msg: str
    reason: str
    input: list[str]
    output: list[str]
    log: list[str]
    benchmark: str | None
    threads: int
    wildcards: dict[str, str]
    resources: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return " ".join([self.rule_name, *self.wildcards.values()])


def snakemake(*args: str | Path, directory: Path) -> subprocess.CompletedProcess[str]:
    """Snakemake's own command line on this checkout's Snakefile."""
    command = [sys.executable, "-m", "snakemake", "--snakefile", CHECKOUT / "Snakefile"]
    return call([*command, "--directory", directory, *args])


def dry_run(*args: str | Path, directory: Path) -> list[Job]:
    """The jobs of `snakemake -n`; an empty list when nothing is to be done."""
    command = [sys.executable, __file__, "-n", "--snakefile", CHECKOUT / "Snakefile", "--logger", "jobs"]
    done = call([*command, "--directory", directory, *args])
    assert done.returncode == 0, done.stderr
    return [Job(**json.loads(line)) for line in done.stdout.splitlines() if line.startswith("{")]


def call(command: list[str | Path]) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ZGCM_")}
    return subprocess.run(
        list(map(str, command)), cwd=CHECKOUT, env=environment, capture_output=True, text=True
    )


if __name__ == "__main__":
    from snakemake.cli import main
    from snakemake_interface_logger_plugins.registry import LoggerPluginRegistry

    LoggerPluginRegistry().register_plugin("snakemake_logger_plugin_jobs", sys.modules["__main__"])
    main(sys.argv[1:])
