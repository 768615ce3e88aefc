"""`zgcm run`: what it shows while it works and at the end, and that it never loses Snakemake's exit code."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from snakemake_interface_logger_plugins.common import LogEvent
from typer.testing import CliRunner

from tests.workflow.jobs import CHECKOUT, call
from zgcm.cli import dryrun, verbs  # noqa: F401 - registers the verbs
from zgcm.cli.app import app
from zgcm.cli.checked import check
from zgcm.cli.progress import LogHandler, in_words
from zgcm.cli.run import arguments, stages_of
from zgcm.errors import ZgcmError


def handler_of(*events: dict) -> LogHandler:
    handler = LogHandler(None, None)  # type: ignore[arg-type]
    for event in events:
        level = event.pop("level", logging.INFO)
        record = logging.LogRecord("snakemake", level, "", 0, event.pop("text", ""), None, None)
        record.__dict__.update(event)
        handler.emit(record)
    return handler


def start(job: int, sentence: str, **wildcards: str) -> dict:
    facts = {"event": LogEvent.JOB_INFO, "jobid": job, "rule_msg": sentence, "rule_name": "clean"}
    return facts | {"wildcards": wildcards}


def test_a_finished_job_is_one_line_with_count_and_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    done = {"event": LogEvent.JOB_FINISHED, "job_id": 3}
    handler_of(
        start(3, "Clean shard 00000 of mine"), done, {"event": LogEvent.PROGRESS, "done": 7, "total": 44}
    )
    assert capsys.readouterr().out == "[ 7/44] Clean shard 00000 of mine (0.0 s)\n"


def test_a_failed_job_shows_the_end_of_its_log_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "train.log"
    log.write_text("".join(f"line {number}\n" for number in range(50)) + "zgcm: No such mix.\n")
    error = {"event": LogEvent.JOB_ERROR, "jobid": 1, "rule_name": "train", "log": [str(log)]}
    repeated = {"event": LogEvent.ERROR, "level": logging.ERROR, "text": "CalledProcessError in file"}
    handler_of(start(1, "Train sft", stage="sft"), repeated, error, dict(error))
    out = capsys.readouterr().out
    assert out.count("FAILED: Train sft") == 1 and out.count("zgcm: No such mix.") == 1
    assert "line 49" in out and "line 10\n" not in out and "CalledProcessError" not in out


def test_the_log_of_a_failed_job_is_named_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Snakemake works in --directory and names files from there."""
    (tmp_path / "train.log").write_text("zgcm: No such mix.\n")
    monkeypatch.chdir(tmp_path)
    handler_of({"event": LogEvent.JOB_ERROR, "jobid": 1, "rule_name": "train", "log": ["train.log"]})
    assert f"The end of {tmp_path}/train.log:" in capsys.readouterr().out


def test_the_target_is_no_job_as_in_the_dry_run(capsys: pytest.CaptureFixture[str]) -> None:
    events = [{"event": LogEvent.RUN_INFO, "stats": {"clean": 2, "all": 1, "total": 3}}]
    for number, sentence in enumerate(["Clean shard 00000", "Clean shard 00001", "Everything is made"]):
        finished = {"event": LogEvent.JOB_FINISHED, "job_id": number}
        counted = {"event": LogEvent.PROGRESS, "done": number + 1, "total": 3}
        events += [start(number, sentence), finished, counted]
    handler_of(*events)
    assert capsys.readouterr().out.splitlines() == [
        "2 jobs to do (what and why: zgcm run -n)",
        "[1/2] Clean shard 00000 (0.0 s)",
        "[2/2] Clean shard 00001 (0.0 s)",
        "Everything is made",
    ]


def test_other_warnings_are_shown_and_chatter_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    handler_of(
        {"text": "Building DAG of jobs..."},
        {"text": "Nothing to be done (all requested files are present and up to date)."},
        {"text": "MissingInputException: mine.jsonl", "level": logging.ERROR, "event": LogEvent.ERROR},
    )
    out = capsys.readouterr().out
    assert "Building" not in out and "Nothing to be done" in out and "mine.jsonl" in out


def test_a_directory_without_results_has_no_table(tmp_path: Path) -> None:
    assert stages_of(tmp_path) == ""


def test_a_profile_keeps_its_own_cores_and_recipe() -> None:
    argv = arguments([], None, Path(), ["--profile", "slurm", "results/sft/done"])
    assert "--cores" not in argv and "--configfile" not in argv
    assert arguments([], None, Path(), [])[-2:] == ["--cores", "all"]
    assert "--configfile" in arguments([Path("a.yaml"), Path("b.yaml")], "2", Path(), [])


def test_snakemakes_failure_is_ours(tmp_path: Path) -> None:
    run = [sys.executable, "-m", "zgcm.cli", "run", "--directory", tmp_path, "results/no/such/file"]
    done = call(run)
    assert done.returncode == 1
    assert "no/such/file" in done.stdout and "Not finished" not in done.stdout, "nothing was begun"


def test_a_dry_run_says_what_and_why_and_does_nothing(tmp_path: Path) -> None:
    target = "results/corpus/demo_traces/00000.jsonl.zst"
    done = call([sys.executable, "-m", "zgcm.cli", "run", "-n", "--directory", tmp_path, target])
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "Get raw shard 00000 of demo_traces  missing output",
        "Clean shard 00000 of demo_traces    missing output",
        "",
        f"2 jobs in {tmp_path / 'results'}: 2 raw text and cleaning",
        "Nothing was done: this was a dry run",
    ]
    assert not (tmp_path / target).exists() and not (tmp_path / "results/recipe.json").exists()


def test_a_dry_run_names_the_files_that_are_missing(tmp_path: Path) -> None:
    target = "results/tokenizer/manifest.json"
    recipe = ["--recipe", CHECKOUT / "config/zgcm-7b.yaml"]
    done = call([sys.executable, "-m", "zgcm.cli", "run", "-n", *recipe, "--directory", tmp_path, target])
    assert done.returncode == 0
    assert "missing: tokenizer.path: models/glm51-tokenizer; to do: bring the directory" in done.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such recipe. at: overlay.yaml. to do: name one with --recipe"),
        ("model: {num_layer: 3}", "did you mean 'num_layers'?"),
        (
            "sources: {notes: {kind: files, files: [notes.jsonl], stage: pretrain, category: web}}",
            "notes.jsonl",
        ),
    ],
)
def test_a_wrong_recipe_is_said_as_other_verbs_say_it_before_snakemake_starts(
    text: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    overlay = Path("overlay.yaml")
    if text is not None:
        overlay.write_text(text)
    recipe = ["-r", str(CHECKOUT / "config/tiny.yaml"), "-r", str(overlay)]
    run = CliRunner().invoke(app, ["run", "-n", *recipe])
    assert isinstance(run.exception, ZgcmError) and said in str(run.exception)
    if text is None or "num_layer" in text:
        check = CliRunner().invoke(app, ["check", *recipe])
        assert str(check.exception) == str(run.exception)
        assert text is None or "(overlay.yaml:1)" in str(run.exception)


def run_verb(*arguments: str | Path) -> Exception | None:
    return CliRunner().invoke(app, ["run", "-n", *map(str, arguments)]).exception


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--cores", "two"], "must be integer or 'all'"),
        (["--jobs", "x"], "number of jobs (--jobs, -j): must be integer"),
        (["--stage", "sft"], "unrecognized arguments: --stage"),
        (["--sdm", "conda", "sft"], "invalid choice: 'sft'"),
        (["--profile", "nope"], "profile directory given (nope)"),
    ],
)
def test_wrong_options_are_one_paragraph(arguments: list[str], said: str, tmp_path: Path) -> None:
    error = run_verb("--directory", tmp_path, *arguments)
    assert isinstance(error, ZgcmError) and said in error.found
    assert "Using" not in error.found and "usage" not in error.found
    assert "zgcm run sft" in error.hint and len(error.paragraph()) < 700


def test_a_directory_that_cannot_be_made_is_one_paragraph() -> None:
    assert "The directory cannot be made. at: /proc/x" in str(run_verb("--directory", "/proc/x"))


def test_outside_the_checkout_a_recipe_must_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    error = run_verb()
    assert isinstance(error, ZgcmError) and "No such recipe" in error.what
    assert str(CliRunner().invoke(app, ["check"]).exception) == str(error)
    assert list(tmp_path.iterdir()) == []


def test_a_stages_name_means_its_done_and_other_words_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CHECKOUT)
    files, targets, forced = check(["sft", "report", "--profile", "slurm"], tmp_path, CHECKOUT)
    assert targets == {"sft": "results/sft/done", "report": "report"}
    assert (files, forced) == ([Path("config/zgcm-7b.yaml")], [])
    assert check(["--cores", "1"], tmp_path, CHECKOUT) == ([Path("config/tiny.yaml")], {}, [])
    assert check(["--cores", "1", "--forcerun", "report"], tmp_path, CHECKOUT)[2] == ["report"]


def test_a_stages_name_is_a_target_and_no_value_of_an_option(tmp_path: Path) -> None:
    directory = tmp_path / "pretrain_1t"
    done = call([sys.executable, "-m", "zgcm.cli", "run", "-n", "pretrain_1t", "--directory", directory])
    assert "Train pretrain_1t" in done.stdout and "Train sft" not in done.stdout
    assert f"jobs in {directory / 'results'}: " in done.stdout


def test_of_a_target_that_nothing_makes_it_says_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZGCM_RECIPE", str(CHECKOUT / "config/tiny.yaml"))
    told = "MissingRuleException:\nNo rule to produce {} (if you use input functions make sure that they)."
    for target in ("stf", "results/stf/done"):
        said = in_words(told.format(target))
        assert f"at: {target}. expected: a stage (pretrain_1t, " in said
        assert said.endswith("to do: if sft is meant: zgcm run sft.") and "input functions" not in said
    assert "is meant" not in in_words(told.format("results/no/such/file"))
    assert in_words("another message") == "another message"


def test_of_a_rule_of_many_files_it_says_what_there_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done = call([sys.executable, "-m", "zgcm.cli", "run", "-n", "sft", "rl", "--directory", tmp_path])
    said = done.stdout + done.stderr
    assert (
        "zgcm: That is a step of each stage or file, and no target alone. at: rl. expected: a stage (pre"
        in said
    )
    assert "wildcards" not in said and "WorkflowError" not in said


def test_a_reader_who_leaves_ends_no_run(tmp_path: Path) -> None:
    """`zgcm run -n | head -1`"""
    target = "results/corpus/demo_traces/00000.jsonl.zst"
    command = [sys.executable, "-m", "zgcm.cli", "run", "-n", "--directory", str(tmp_path), target]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, cwd=CHECKOUT, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr and "Error" not in done.stderr


def test_jobs_of_unknown_origin_are_told_no_wider_than_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    handler = dryrun.LogHandler(None, None)  # type: ignore[arg-type]
    message = "3 jobs have missing provenance/metadata so that it in part cannot be used to trigger re-runs."
    handler.emit(logging.LogRecord("snakemake", logging.INFO, "", 0, message, None, None))
    out = capsys.readouterr().out
    said = " ".join(out.split())
    assert said.startswith("Of the outputs of 3 jobs Snakemake") and "a verb called by hand" in said
    assert max(map(len, out.splitlines())) <= 80
