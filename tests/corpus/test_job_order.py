"""The data plane's bytes depend on recipe and inputs alone: not on the order of jobs, nor on threads."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from zgcm.cli import verbs  # noqa: F401 - registers the verbs
from zgcm.cli.app import app
from zgcm.config.load import load_recipe
from zgcm.config.recipe import Recipe
from zgcm.layout import mix_shards, source_shards, used_shards

TINY = Path(__file__).parents[2] / "config/tiny.yaml"
EVALUATIONS = TINY.parent / "evaluations/word_problems.jsonl"
DOCUMENTS = {
    "demo_code": 24,
    "demo_prose": 60,
    "demo_arithmetic": 120,
    "demo_traces": 20,
    "demo_conversations": 90,
}
TOKENS = {"pretrain_1t": 12_000, "pretrain_3p2t": 12_000, "midtrain_mix64": 6_000, "midtrain_mix16": 4_000}

KILL_AFTER = (0.3, 2.0)
"""Seconds: from the imports to the end of most jobs."""

Job = tuple[str, ...]
"""A verb and its arguments."""


def small(threads: int) -> dict:
    """Every kind of source and mix of the tiny recipe, with a few documents in two shards each."""
    mixes: dict = {name: {"tokens": tokens, "length_shares": []} for name, tokens in TOKENS.items()}
    mixes["sft"] = {"shards": 2}
    for mix in mixes.values():
        mix["threads"] = threads
    for name in TOKENS:
        mixes[name]["decontaminate"] = {"against": [str(EVALUATIONS)]}
    sources = {name: {"documents": count, "shards": 2} for name, count in DOCUMENTS.items()}
    return {"tokenizer": {"vocab_size": 600}, "sources": sources, "mixes": mixes}


def jobs_of(recipe: Recipe) -> dict[Job, list[Job]]:
    """Each verb of the data plane and what it waits for."""
    jobs: dict[Job, list[Job]] = {}
    places = [(source, shard) for source in recipe.sources for shard in source_shards(recipe, source)]
    for place in places:
        jobs["raw", *place] = []
        jobs["clean", *place] = [("raw", *place)]
        jobs["fingerprint", *place] = jobs["minhash", *place] = [("clean", *place)]
        jobs["index", *place] = [("clean", *place), ("tokenizer",)]
    jobs["tokenizer",] = [
        ("clean", source, shard) for source, shard in places if source in recipe.tokenizer.sources
    ]
    for name, mix in recipe.mixes.items():
        used = used_shards(recipe, name)
        earlier = [("mix", other) for other in mix.exclude]
        compared = [(verb, *place) for verb in ("fingerprint", "minhash") for place in used]
        if mix.decontaminate:
            compared += [("contamination", name, *place) for place in used]
            jobs |= {("contamination", name, *place): [("clean", *place)] for place in used}
        jobs["dedup", name] = [*compared, *earlier]
        jobs["mix", name] = [("dedup", name), *(("index", *place) for place in used)]
        last = "pack" if mix.kind == "packed" else "gather"
        jobs |= {(last, name, shard): [("mix", name)] for shard in mix_shards(recipe, name)}
    return jobs


def run_all(directory: Path, seed: int, threads: int, killed_first: bool = False) -> dict[str, bytes]:
    overlay = directory / "small.yaml"
    overlay.write_text(yaml.safe_dump(small(threads)))
    places = ["--recipe", str(TINY), "--recipe", str(overlay), "--directory", str(directory)]
    waiting = jobs_of(load_recipe([TINY, overlay]))
    chance = random.Random(seed)
    done: set[Job] = set()
    while waiting:
        job = chance.choice([job for job, needed in waiting.items() if done.issuperset(needed)])
        if killed_first:
            kill([*job, *places], chance.uniform(*KILL_AFTER))
        answer = CliRunner().invoke(app, [*job, *places])
        assert answer.exit_code == 0, (job, answer.output, answer.exception)
        done.add(job)
        del waiting[job]
    files = sorted(path for path in (directory / "results").rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def kill(arguments: list[str], seconds: float) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "zgcm.cli", *arguments],
        start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    time.sleep(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.slow
def test_bytes_depend_on_neither_the_order_of_jobs_nor_threads(tmp_path: Path) -> None:
    runs = []
    for seed, threads in ((1, 1), (2, 2)):
        directory = tmp_path / str(seed)
        directory.mkdir()
        runs.append(run_all(directory, seed, threads))
    first, second = runs
    assert len(first) > 100
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []


@pytest.mark.long
def test_every_job_killed_and_repeated_leaves_the_same_bytes(tmp_path: Path) -> None:
    want, found = (tmp_path / name for name in ("want", "found"))
    want.mkdir()
    found.mkdir()
    whole, killed = run_all(want, 1, 1), run_all(found, 1, 1, killed_first=True)
    assert whole.keys() == killed.keys()
    assert [name for name in whole if whole[name] != killed[name]] == []
