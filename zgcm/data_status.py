"""How far the steps before training are, from files alone: which outputs are there, which logs without one.

    for row in data_states(recipe, layout): print(row["step"], row["made"], row["of"], row["begun"])

A rule's log is there from the job's start on, and Snakemake removes the outputs of a job before it starts:
a log without its output is a job that runs, or one that failed or was killed.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zgcm import identity
from zgcm.config.recipe import Recipe
from zgcm.errors import ZgcmError
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
Job = tuple[str, Path, str]
"""(name, output, log below results/logs)."""


def data_states(recipe: Recipe, layout: Layout) -> list[dict[str, Any]]:
    """A row for each step: step, made, of (jobs), begun ([{name, seconds}]: jobs without an output, seconds
    since they last wrote to their log), running and waiting (jobs in Slurm's queue).

    Empty when all that training reads is made, and where the lock of a source is still to be written, so that
    nobody knows how much there is.
    """
    try:
        jobs = {step: list(jobs_of(recipe, layout, step)) for step in STEPS}
    except ZgcmError:
        return []
    absent = {step: [job for job in some if not job[1].exists()] for step, some in jobs.items()}
    if not absent[LAST]:
        return []
    queued = queue.jobs_of(layout.root.parent)
    return [_row(layout, step, len(jobs[step]), absent[step], queued) for step in STEPS if jobs[step]]


def _row(
    layout: Layout, step: str, number: int, absent: list[Job], queued: dict[str, queue.Job]
) -> dict[str, Any]:
    begun = []
    for name, _, log in absent:
        logs = [layout.root / "logs" / log]
        if step == "mixes":
            logs.append(layout.root / "logs" / "dedup" / Path(log).name)
        if times := [path.stat().st_mtime for path in logs if path.is_file()]:
            begun.append({"name": name, "seconds": max(time.time() - max(times), 0)})
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
