"""What a change makes stale, and what it does not, on the real Snakefile after a real run."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.workflow.conftest import MINI, run
from tests.workflow.jobs import CHECKOUT, Job, call, dry_run, snakemake

pytestmark = pytest.mark.slow

ON_THE_WAY = ["pretrain_1t", "pretrain_3p2t", "midtrain_16k", "midtrain_64k", "midtrain_256k"]
AT_THE_END = ["train sft", "export sft", "rl rl_math", "export rl_math", "report", "all"]


def stale(directory: Path, overlay: dict | None = None, *targets: str) -> dict[str, str]:
    """Job -> reason, of all results or `targets`, for a recipe that an overlay makes another one."""
    paths = list(MINI)
    if overlay:
        paths.append(directory / "overlay.yaml")
        paths[-1].write_text(yaml.safe_dump(overlay))
    jobs: list[Job] = dry_run(*targets, *paths, directory=directory)
    return {str(job): job.reason for job in jobs}


@contextmanager
def put_back(path: Path) -> Iterator[None]:
    """Undo what a test does to a file, its time included."""
    content, times = path.read_bytes(), path.stat()
    try:
        yield
    finally:
        path.write_bytes(content)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_a_second_run_finds_nothing_to_do(finished: Path) -> None:
    assert stale(finished) == {}
    again = run(finished)
    assert again.returncode == 0
    assert "Nothing to be done" in again.stdout
    assert "rl_math" in again.stdout and "report.html" in again.stdout


def test_snakemakes_own_report_is_written(finished: Path, tmp_path: Path) -> None:
    page = tmp_path / "snakemake.html"
    done = snakemake("--report", page, *MINI, directory=finished)
    assert done.returncode == 0, done.stderr
    assert "report.html" in page.read_text()


@pytest.mark.parametrize("change", [{"epochs": 2, "steps": 3}, {"evaluation": {"every_steps": 2}}], ids=str)
def test_a_stage_asked_for_alone_is_stale_with_another_length_or_other_evaluations(
    finished: Path, change: dict
) -> None:
    reasons = stale(finished, {"stages": {"rl_math": change}}, "results/rl_math/done")
    assert set(reasons) == {"rl rl_math"} and "Params have changed" in reasons["rl rl_math"]


def test_another_learning_rate_is_stale_from_its_stage_on(finished: Path) -> None:
    reasons = stale(finished, {"stages": {"midtrain_64k": {"optimizer": {"lr": 0.0005}}}})
    assert set(reasons) == {"train midtrain_64k", "train midtrain_256k", *AT_THE_END}
    assert "Params have changed" in reasons["train midtrain_64k"]


def test_a_new_sft_source_leaves_pretraining_alone(finished: Path) -> None:
    more = {"kind": "demo", "content": "conversations", "stage": "posttrain", "category": "math", "seed": 7}
    more |= {"documents": 40}
    more |= {"cleaning": {"settings": {"math_min_solution_chars": 16}}}
    mix = {"sources": {"demo_conversations": 1.0, "more": 1.0}}
    reasons = stale(finished, {"sources": {"more": more}, "mixes": {"sft": mix}})
    new = {"raw more 00000 jsonl.zst", "clean more 00000", "fingerprint more 00000", "index more 00000"}
    packed = {"dedup sft", "mix_sft", "pack sft 00000", "pack_summary sft"}
    assert set(reasons) == new | packed | set(AT_THE_END)


EXECUTION = {
    "description": "another text",
    "mixes": {"pretrain_1t": {"threads": 2}},
    "step_resources": {
        "clean": {"mem_mb": 999, "runtime_minutes": 5, "partition": "cpu", "cpus_per_process": 2},
        "mix": {"mem_mb": 999},
    },
    "stages": {
        "pretrain_1t": {
            "log_interval": 1,
            "checkpoints": {"save_interval": 2, "keep_recent": 5},
            "resources": {
                "nodes": 2,
                "gpus_per_node": 1,
                "partition": "gpu",
                "mem_mb": 1,
                "cpus_per_process": 4,
            },
            "parallel": {"pipeline": 2},
            "dataloader_workers": 2,
            "timeout_minutes": 9,
        },
        "sft": {"log_interval": 1, "resources": {"partition": "gpu", "runtime_minutes": 1}},
        "rl_math": {
            "rollout": {"engines": 2},
            "reward": {"workers": 1},
            "resources": {"cpus_per_process": 3},
        },
    },
}


def test_how_a_stage_runs_makes_nothing_stale(finished: Path) -> None:
    assert stale(finished, EXECUTION) == {}


def test_touched_code_makes_nothing_stale(finished: Path) -> None:
    code = [
        *(CHECKOUT / "zgcm").rglob("*.py"),
        *(CHECKOUT / "rules").glob("*.smk"),
        *(CHECKOUT / "envs").iterdir(),
    ]
    for path in code:
        path.touch()
    assert stale(finished) == {}


def test_a_changed_raw_shard_makes_its_descendants_stale(finished: Path) -> None:
    shard = finished / "user_text.jsonl"
    with put_back(shard):
        with shard.open("a") as stream:
            stream.write('{"id": "late", "text": "One more note, which nobody had read before this day."}\n')
        reasons = stale(finished)
    assert "Updated input files: user_text.jsonl" in reasons["clean user_text 00000"]
    descendants = [
        "fingerprint user_text 00000",
        "index user_text 00000",
        "dedup pretrain_1t",
        "mix_pretrain_1t",
    ]
    assert {*descendants, *(f"train {stage}" for stage in ON_THE_WAY), *AT_THE_END} <= set(reasons)
    assert not {job for job in reasons if "demo_" in job}, "other sources are as they were"
    assert stale(finished) == {}


def test_a_deleted_checkpoint_makes_nothing_stale_but_export_misses_it(
    finished: Path, tmp_path: Path
) -> None:
    runs, aside = finished / "results/sft/runs", tmp_path / "runs"
    shutil.move(runs, aside)
    try:
        assert stale(finished) == {}
        recipe = [part for path in MINI[1:] for part in ("--recipe", path)]
        verb = [sys.executable, "-m", "zgcm.cli", "export", "sft", *recipe]
        missing = call([*verb, "--directory", finished])
        assert missing.returncode == 1
        assert "results/sft/runs" in missing.stderr and "Traceback" not in missing.stderr
    finally:
        shutil.move(aside, runs)


def test_a_lost_metadata_directory_reruns_nothing(finished: Path) -> None:
    """Only `zgcm status` sees a changed id then: it compares with `done`."""
    metadata, aside = finished / ".snakemake/metadata", finished / ".snakemake/aside"
    if not metadata.exists():
        pytest.fail("Snakemake keeps its metadata elsewhere now")
    metadata.rename(aside)
    try:
        assert stale(finished) == {}
    finally:
        shutil.rmtree(metadata, ignore_errors=True)
        aside.rename(metadata)
