"""The recipe of docs/start-anywhere.md: adopted weights, the user's conversations, SFT, then RL."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.workflow.jobs import CHECKOUT, call, dry_run

TINY = CHECKOUT / "config/tiny.yaml"
MINI = CHECKOUT / "tests/recipes/mini.yaml"
PAGE = (CHECKOUT / "docs/start-anywhere.md").read_text()

CONVERSATIONS = 700
"""Of the page's 4,096: an epoch of them is 100 iterations and some, as few as training takes."""
SMALL = {  # over the page's recipe: sequences of the mini recipe's length
    "mixes": {"mine": {"sequence_length": 128}},
    "stages": {"sft": {"seq_length": 128, "schedule": {"epochs": 1}, "checkpoints": {"save_interval": 200}}},
}


def overlay() -> str:
    return next(
        block.split("```")[0] for block in PAGE.split("```yaml\n") if block.startswith("name: chats\n")
    )


def write_recipe(directory: Path, weights: Path | str) -> list[Path]:
    """Recipe files of a run in `directory`, the page's overlay with the weights' path among them."""
    (directory / "chats.yaml").write_text(overlay().replace("../../results/export/sft", str(weights)))
    (directory / "small.yaml").write_text(yaml.safe_dump(SMALL))
    return [TINY, MINI, directory / "chats.yaml", directory / "small.yaml"]


def write_conversations(directory: Path) -> None:
    """By the script on the page, as it stands there; the first of them."""
    script = re.search(r"chats\.jsonl <<'END'\n(.*?)\nEND\n", PAGE, re.S)
    assert script is not None
    lines = subprocess.run([sys.executable, "-c", script[1]], capture_output=True, text=True, check=True)
    kept = lines.stdout.splitlines(keepends=True)[:CONVERSATIONS]
    (directory / "chats.jsonl").write_text("".join(kept))


def zgcm(*args: str | Path) -> subprocess.CompletedProcess[str]:
    return call([sys.executable, "-m", "zgcm.cli", *args])


def test_it_plans_where_the_weights_are_not_there_yet(tmp_path: Path) -> None:
    write_conversations(tmp_path)
    files = write_recipe(tmp_path, tmp_path / "weights")
    jobs = dry_run("--configfile", *files, directory=tmp_path)
    names = [str(job) for job in jobs]
    assert not [name for name in names if "pretrain" in name or "midtrain" in name or "demo" in name]
    (adopt,) = [job for job in jobs if job.rule_name == "adopt"]
    assert adopt.rule_msg == f"Adopt published: weights of {tmp_path / 'weights'}"
    (train,) = [job for job in jobs if job.rule_name == "train"]
    assert "results/published/done" in train.input
    assert {"train sft", "export sft", "rl rl_math", "export rl_math", "tokenizer"} <= set(names)
    recipe = [part for file in files for part in ("-r", file)]
    planned = zgcm("plan", *recipe, "--directory", tmp_path)
    assert "published: to be adopted: huggingface weights of" in planned.stdout
    assert "which is not there yet" in planned.stdout
    assert "published is adopted" in zgcm("check", *recipe).stdout


def test_adopted_tokens_replace_everything_before_them(tmp_path: Path) -> None:
    (tmp_path / "tokens.yaml").write_text(
        "{name: tokens, only: [pretrain_1t], tokenizer: {kind: import, path: there, sources: null},"
        " mixes: {given: {prefixes: [a, b]}}, stages: {pretrain_1t: {mix: {pretrain_1t: null, given: 1}}}}"
    )
    jobs = dry_run("--configfile", TINY, tmp_path / "tokens.yaml", directory=tmp_path)
    assert sorted(str(job) for job in jobs) == [
        *("adopt_tokens given 00000", "adopt_tokens given 00001", "all", "report"),
        *("tokenizer", "train pretrain_1t"),
    ]
    assert "results/mixes/given/00001.json" in next(job for job in jobs if job.rule_name == "train").input


@pytest.mark.long
def test_sft_on_own_conversations_from_exported_weights_then_rl(finished: Path, tmp_path: Path) -> None:
    write_conversations(tmp_path)
    weights = finished / "results/export/sft"
    files = write_recipe(tmp_path, weights)
    recipe = [part for file in files for part in ("-r", file)]
    done = zgcm("run", "--directory", tmp_path, "--cores", "2", *recipe)
    assert done.returncode == 0, done.stdout + done.stderr
    results = tmp_path / "results"
    adopted, sft = (json.loads((results / stage / "done").read_text()) for stage in ("published", "sft"))
    assert sft["inputs"]["weights of published"] == adopted["weights_digest"]
    assert sft["final_loss"] < sft["first_loss"]
    assert (results / "export/rl_math/manifest.json").is_file()
    assert len(list((results / "rl_math/evaluations").glob("version_*.json"))) == 3
    assert "adopted" in (results / "report.html").read_text()

    assert dry_run("--configfile", *files, directory=tmp_path) == []  # nothing is stale
    moved = tmp_path / "moved"
    moved.symlink_to(weights)
    files = write_recipe(tmp_path, moved)
    jobs = {str(job) for job in dry_run("--configfile", *files, directory=tmp_path)}
    assert "adopt published" in jobs  # another path is looked at again
    before = (results / "sft/done").read_bytes()
    again = zgcm("run", "--directory", tmp_path, "--cores", "2", *recipe, "results/sft/done")
    assert again.returncode == 0, again.stdout + again.stderr
    assert (results / "sft/done").read_bytes() == before
    attempts = json.loads((results / "sft/runs" / sft["run_id"] / "run.json").read_text())["attempts"]
    assert len(attempts) == 1  # and where the weights are the same, nothing is trained again
