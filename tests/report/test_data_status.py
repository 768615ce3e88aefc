"""`zgcm status` before training: what is made of how much, and what has begun."""

import os
import re
import time
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.workflow.jobs import CHECKOUT, snakemake
from zgcm.cli import verbs  # noqa: F401 - registers the verbs
from zgcm.cli.app import app
from zgcm.cli.checked import check
from zgcm.cli.status import remarks
from zgcm.config.load import load_recipe
from zgcm.config.recipe import Recipe
from zgcm.data_status import LAST, STEPS, data_states, jobs_of, made_by_hand
from zgcm.identity import recipe_id
from zgcm.io import write_json
from zgcm.layout import Layout


def touch(path: Path, ago: float = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    os.utime(path, (time.time() - ago, time.time() - ago))


def make(recipe: Recipe, layout: Layout, step: str, leave: int = 0) -> None:
    jobs = list(jobs_of(recipe, layout, step))
    for _, output, log in jobs[: len(jobs) - leave]:
        touch(output)
        touch(layout.root / "logs" / log)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "results")
    write_json(layout.stamp, {"name": "tiny", "recipe": "config/tiny.yaml"})
    return layout


def test_what_is_made_and_what_has_begun(tiny: Recipe, layout: Layout) -> None:
    make(tiny, layout, "raw text")
    make(tiny, layout, "cleaning", leave=2)
    last = list(jobs_of(tiny, layout, "cleaning"))[-1]
    touch(layout.root / "logs" / last[2], ago=70)
    touch(layout.root / "logs" / "dedup" / "sft.log", ago=5)
    rows = {row["step"]: row for row in data_states(tiny, layout)}
    assert list(rows) == list(STEPS)
    whole = rows["raw text"]["of"]
    assert (rows["raw text"]["made"], rows["raw text"]["begun"]) == (whole, [])
    assert (rows["cleaning"]["made"], rows["cleaning"]["of"]) == (whole - 2, whole)
    ((begun),) = rows["cleaning"]["begun"]
    assert begun["name"] == last[0] and 69 < begun["seconds"] < 90
    assert [job["name"] for job in rows["mixes"]["begun"]] == ["sft"]
    assert rows[LAST]["made"] == 0


def test_the_queue_is_counted_by_step(
    tiny: Recipe, layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = tmp_path.resolve()
    names = [("RUNNING", "clean_wildcards_demo_code_00000"), ("PENDING", "clean_wildcards_demo_code_00001")]
    names += [("RUNNING", "mix_sft"), ("RUNNING", "train_wildcards_sft")]
    rows = "".join(f"{n}|{state}||1:00|R|{where}|rule_{rule}\\n" for n, (state, rule) in enumerate(names))
    (tmp_path / "squeue").write_text(f"#!/bin/sh\nprintf '{rows}'\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = {row["step"]: (row["running"], row["waiting"]) for row in data_states(tiny, layout)}
    assert found.pop("cleaning") == (1, 1) and found.pop("mixes") == (1, 0)
    assert set(found.values()) == {(0, 0)}


def test_what_another_recipe_made_is_stale(tmp_path: Path) -> None:
    """By the record that Snakemake itself writes, of a job that it ran."""
    ran = snakemake("--cores", "1", "results/raw/demo_code/00000.jsonl.zst", directory=tmp_path)
    assert ran.returncode == 0, ran.stderr
    layout = Layout(tmp_path / "results")
    other = tmp_path / "other.yaml"
    other.write_text("sources: {demo_code: {seed: 99}}")

    def raw(*files: Path) -> tuple[int, int]:
        row = data_states(load_recipe([CHECKOUT / "config/tiny.yaml", *files]), layout)[0]
        return row["made"], row["stale"]

    assert raw() == (1, 0)
    assert raw(other) == (1, 1)
    assert "1 stale" in remarks(data_states(load_recipe([CHECKOUT / "config/tiny.yaml", other]), layout)[0])


def test_every_step_can_be_stale_also_once_all_is_made(tiny: Recipe, layout: Layout) -> None:
    for step in STEPS:
        make(tiny, layout, step)
    for step in STEPS:
        first = next(iter(jobs_of(tiny, layout, step)))[1]
        name = urlsafe_b64encode(str(first.relative_to(layout.root.parent)).encode()).decode()
        write_json(layout.root.parent / ".snakemake/metadata" / name, {"params": ["'0123456789ab'", "''"]})
        assert {row["step"]: row["stale"] for row in data_states(tiny, layout)}[step] == 1


def test_what_a_verb_by_hand_made_states_its_recipe(tmp_path: Path) -> None:
    """Snakemake has no record of it, and of what it made itself before, an older one."""

    def zgcm(*words: str) -> str:
        answer = CliRunner().invoke(app, [*words, "-d", str(tmp_path)])
        assert answer.exit_code == 0, answer.output
        return answer.output

    zgcm("raw", "demo_code", "00000")
    zgcm("clean", "demo_code", "00000")
    layout = Layout(tmp_path / "results")
    other = tmp_path / "other.yaml"
    other.write_text("sources: {demo_code: {cleaning: {min_chars: 300}}}")
    same, changed = (load_recipe([CHECKOUT / "config/tiny.yaml", *more]) for more in ([], [other]))
    made = layout.cleaning_summary("demo_code", "00000")
    assert made_by_hand(same, layout) == []
    assert made_by_hand(changed, layout) == [made]
    stale = {row["step"]: row["stale"] for row in data_states(changed, layout)}
    assert stale["cleaning"] == 1
    command = ["--snakefile", "Snakefile", "--configfile", "config/tiny.yaml", str(other)]
    assert check([*command, "--cores", "1"], tmp_path, CHECKOUT)[2] == [str(made.relative_to(tmp_path))]
    record = tmp_path / ".snakemake/metadata"
    name = urlsafe_b64encode(str(made.relative_to(tmp_path)).encode()).decode()
    write_json(record / name, {"params": [f"'{recipe_id(changed, 'clean', 'demo_code')}'"]})
    assert made_by_hand(changed, layout) == [made], "made again by hand since"
    write_json(record / name, {"params": [f"'{recipe_id(same, 'clean', 'demo_code')}'"]})
    assert made_by_hand(changed, layout) == [], "Snakemake knows, and says which keys changed"


def test_of_a_mix_planned_by_hand_the_duplicates_are_found_again_too(tiny: Recipe, layout: Layout) -> None:
    write_json(layout.plan("sft"), {"recipe_id": recipe_id(tiny, "mix", "sft")})
    assert made_by_hand(tiny, layout) == []
    write_json(layout.plan("sft"), {"recipe_id": "0123456789ab"})
    assert made_by_hand(tiny, layout) == [layout.plan("sft"), layout.duplicates("sft")]


@pytest.mark.parametrize("record", ["", "[]", "null", '{"params": null}', '{"params": [1]}', "[" * 200_000])
def test_a_damaged_record_is_none(tiny: Recipe, layout: Layout, record: str) -> None:
    make(tiny, layout, "tokenizer")
    root = layout.root.parent
    (root / ".snakemake/metadata").mkdir(parents=True)
    for _, output, _ in jobs_of(tiny, layout, "tokenizer"):
        name = urlsafe_b64encode(str(output.relative_to(root)).encode()).decode()
        (root / ".snakemake/metadata" / name).write_text(record)
    assert not any(row["stale"] for row in data_states(tiny, layout))


def test_a_failed_job_comes_first_with_its_log(tiny: Recipe, layout: Layout) -> None:
    endings = ["zgcm: Stopped at your request.", "working", "zgcm: There is no record.", "Traceback (most"]
    jobs = list(jobs_of(tiny, layout, "cleaning"))[:4]
    for (_, _, log), ending in zip(jobs, endings, strict=True):
        touch(layout.root / "logs" / log)
        (layout.root / "logs" / log).write_text(f"a line\n{ending}\n")
    row = next(row for row in data_states(tiny, layout) if row["step"] == "cleaning")
    failed = [job["failed"] for job in row["begun"]]
    assert failed == [None, None, *(str(layout.root / "logs" / log) for _, _, log in jobs[2:])]
    for name, _, log in jobs[2:]:
        assert f"{name} failed, see {layout.root / 'logs' / log}, " in remarks(row)


def test_nothing_is_said_once_all_that_training_reads_is_there(tiny: Recipe, layout: Layout) -> None:
    make(tiny, layout, LAST, leave=1)
    assert data_states(tiny, layout)
    make(tiny, layout, LAST)
    assert data_states(tiny, layout) == [], "raw text may be removed by then"


def test_status_says_it_until_then(
    tiny: Recipe, recipe_files: list[Path], layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    recipes = [part for path in recipe_files for part in ("--recipe", str(path))]

    def said() -> list[str]:
        answer = CliRunner().invoke(app, ["status", "-d", str(layout.root.parent), *recipes])
        assert answer.exit_code == 0, answer.exception
        return answer.output.splitlines()

    name, _, log = next(iter(jobs_of(tiny, layout, "cleaning")))
    touch(layout.root / "logs" / log, ago=70)
    (row,) = [line for line in said() if line.startswith("cleaning")]
    assert re.fullmatch(rf"cleaning +0 of \d+ +{name} 1 min \d\d s ago", row)
    make(tiny, layout, LAST)
    assert not [line for line in said() if line.startswith("cleaning")]
