"""How far the steps before training are, from files alone: which outputs are there, which of them belong to
another recipe, which logs are there without one.

    for row in data_states(recipe, layout): print(row["step"], row["made"], row["of"], row["begun"])

A rule's log is there from the job's start on, and Snakemake removes the outputs of a job before it starts:
a log without its output is a job that runs, or one that failed or was killed. Which recipe_id made an output,
the output itself states, or else Snakemake's record of it (`.snakemake/metadata`), which there is none of for
a verb called by hand; an output without either counts as up to date.
"""

import contextlib
import re
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zgcm import identity, reasons
from zgcm.config.recipe import Recipe
from zgcm.errors import ZgcmError
from zgcm.io import parse_json
from zgcm.layout import Layout, compared_shards, mix_shards, raw_input, used_shards
from zgcm.slurm import queue

LAST = "shards of mixes"
"""The step whose results training reads."""
STEPS = {
    "raw text": ("raw",),
    "cleaning": ("clean",),
    "fingerprints": ("fingerprint",),
    "tokenizer": ("tokenizer",),
    "tokenizing": ("index",),
    "comparing": ("minhash", "contamination"),
    "mixes": ("dedup", "mix"),
    LAST: ("gather", "pack", "adopt_tokens"),
}
"""Step -> its rules. Raw text of files of yours is no job."""
FAILED = re.compile(r"^(zgcm: (?!Stopped)|Traceback )", re.M)
"""How a verb ends its log when it fails."""
Job = tuple[str, Path, str]
"""(name, output, log below results/logs)."""


def data_states(recipe: Recipe, layout: Layout) -> list[dict[str, Any]]:
    """A row for each step: step, made, of (jobs), stale (of those made), begun ([{name, seconds, failed}]:
    jobs without an output, seconds since they last wrote to their log, the log if it ends with an error),
    running and waiting (jobs in Slurm's queue).

    Once all that training reads is made, only of steps in which something is stale. Empty where the lock of a
    source is still to be written, so that nobody knows how much there is.
    """
    try:
        jobs = {step: list(jobs_of(recipe, layout, step)) for step in STEPS}
    except ZgcmError:
        return []
    absent = {step: [job for job in some if not job[1].exists()] for step, some in jobs.items()}
    stale = {step: sum(_is_stale(recipe, layout, job) for job in some) for step, some in jobs.items()}
    shown = [step for step in STEPS if jobs[step] and (absent[LAST] or stale[step])]
    if not shown:
        return []
    queued = queue.jobs_of(layout.root.parent)
    return [
        {**_row(layout, step, len(jobs[step]), absent[step], queued), "stale": stale[step]} for step in shown
    ]


def made_by_hand(recipe: Recipe, layout: Layout) -> list[Path]:
    """Outputs made with another recipe_id than the recipe's of which Snakemake does not know that: by a verb
    called by hand. Of a mix its duplicates too, which its plan was made from."""
    try:
        jobs = [job for step in STEPS for job in jobs_of(recipe, layout, step)]
    except ZgcmError:
        return []
    found = []
    for job in jobs:
        output = job[1]
        now, recorded = _recipe_id(recipe, job), _recorded(layout, output)
        if _stated(output) - {now} and (not recorded or now in recorded):
            found.append(output)
            if output == layout.plan(job[0]):
                found.append(layout.duplicates(job[0]))
    return found


def _is_stale(recipe: Recipe, layout: Layout, job: Job) -> bool:
    """Whether an output is there and was made with another recipe_id than the recipe's."""
    output = job[1]
    before = (_stated(output) or _recorded(layout, output)) if output.exists() else set()
    return bool(before) and _recipe_id(recipe, job) not in before


def _recipe_id(recipe: Recipe, job: Job) -> str:
    name, _, log = job
    about = name.split()[0]
    step = reasons.step_of(recipe, Path(log).parts[0].removesuffix(".log"), {"source": about, "mix": about})
    assert step is not None, f"{log} belongs to a step"
    return identity.recipe_id(recipe, *step)


def _stated(output: Path) -> set[str]:
    """The recipe_id that an output itself states; empty where it states none."""
    if output.suffix != ".json":
        return set()
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # as below
        return {str(parse_json(output.read_bytes())["recipe_id"])}
    return set()


def _recorded(layout: Layout, output: Path) -> set[str]:
    """The recipe_id in Snakemake's record of an output; empty without a record."""
    name = urlsafe_b64encode(str(output.relative_to(layout.root.parent)).encode()).decode()
    # none, one that is just being written, or a damaged one
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        record = parse_json((layout.root.parent / ".snakemake/metadata" / name).read_bytes())
        return set(re.findall(r"'([0-9a-f]{12})'", " ".join(record["params"])))
    return set()


def _row(
    layout: Layout, step: str, number: int, absent: list[Job], queued: dict[str, queue.Job]
) -> dict[str, Any]:
    begun = []
    for name, _, log in absent:
        logs = [layout.root / "logs" / log]
        if step == "mixes":
            logs.append(layout.root / "logs" / "dedup" / Path(log).name)
        if times := {path.stat().st_mtime: path for path in logs if path.is_file()}:
            last = max(times)
            failed = str(times[last]) if FAILED.search(times[last].read_text(errors="replace")) else None
            begun.append({"name": name, "seconds": max(time.time() - last, 0), "failed": failed})
    mine = [
        job
        for comment, job in queued.items()
        if any(comment == f"rule_{rule}" or comment.startswith(f"rule_{rule}_") for rule in STEPS[step])
    ]
    waiting = sum(job.state == "PENDING" for job in mine)
    return {
        **{"step": step, "made": number - len(absent), "of": number, "begun": begun},
        **{"running": len(mine) - waiting, "waiting": waiting},
    }


def jobs_of(recipe: Recipe, layout: Layout, step: str) -> Iterator[Job]:
    """Every job of a step. Raises ZgcmError where a lock is missing."""
    if step == "tokenizer":
        yield recipe.tokenizer.kind, layout.tokenizer / "manifest.json", "tokenizer.log"
    elif step == "mixes":
        for name, mix in recipe.mixes.items():
            if not mix.prefixes:
                yield name, layout.plan(name), f"mix/{name}.log"
    elif step == LAST:
        for name, mix in recipe.mixes.items():
            rule = "adopt_tokens" if mix.prefixes else "pack" if mix.kind == "packed" else "gather"
            for shard in mix_shards(recipe, name):
                yield f"{name} {shard}", layout.mix(name) / f"{shard}.json", f"{rule}/{name}/{shard}.log"
    elif step == "comparing":
        yield from dict.fromkeys(_comparisons(recipe, layout))
    else:
        places = dict.fromkeys(place for name in recipe.mixes for place in used_shards(recipe, name))
        for source, shard in places:
            yield from _of_shard(recipe, layout, step, source, shard)


def _comparisons(recipe: Recipe, layout: Layout) -> Iterator[Job]:
    """Bands of near-duplicates, and what shards share with evaluation files."""
    for name, mix in recipe.mixes.items():
        if (near := mix.near_duplicates) is not None:
            for source, shard in compared_shards(recipe, name):
                output = layout.minhash(source, shard, near.scheme)
                yield f"{source} {shard}", output, f"minhash/{source}/{output.stem}.log"
        if mix.decontaminate is not None:
            evaluations = identity.evaluation_set(mix.decontaminate)
            for source, shard in used_shards(recipe, name):
                output = layout.contamination(source, shard, evaluations)
                yield f"{source} {shard}", output, f"contamination/{source}/{output.stem}.log"


def _of_shard(recipe: Recipe, layout: Layout, step: str, source: str, shard: str) -> Iterator[Job]:
    if step == "raw text":
        if recipe.sources[source].kind != "files":
            raw = raw_input(recipe, layout, source, shard)
            yield f"{source} {shard}", raw, f"raw/{source}/{raw.name}.log"
        return
    rule, output = {
        "cleaning": ("clean", layout.cleaning_summary(source, shard)),
        "fingerprints": ("fingerprint", layout.fingerprints(source, shard)),
        "tokenizing": ("index", layout.index_report(source, shard)),
    }[step]
    yield f"{source} {shard}", output, f"{rule}/{source}/{shard}.log"
