"""A mixed stage with everything real: engine, learner, verifiers, sandbox. Killed in the middle, with its
sandbox killed besides, it ends as if nothing had happened."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from bandit import prepare
from test_stage import DEADLINE, finish, only_run, start

from zgcm.io import sha256_bytes
from zgcm.rl.formats import write_assets

pytestmark = pytest.mark.long
TESTS = json.dumps(["assert n == 7", "assert isinstance(n, int)"]).encode()
FIELDS: dict[str, dict[str, Any]] = {
    "math": {"answers": ["7"]},
    "code": {"answers": [], "code_asset_hash": sha256_bytes(TESTS)},
    "if": {
        "answers": [],
        "ifeval_spec": [
            {"instruction_id": "keywords:existence", "kwargs": {"keywords": ["7"]}},
            {"instruction_id": "punctuation:no_comma", "kwargs": {}},
        ],
    },
}
ANSWERS = {"math": "\\boxed{{{}}}", "code": "n = {}", "if": "say {}"}
DOMAINS = tuple(FIELDS)


def rows(split: str, count: int) -> list[dict[str, Any]]:
    letter = "t" if split == "train" else "v"
    return [
        {
            "sample_id": f"{split}{number}",
            "domain": domain,
            "task_type": domain,
            "messages": [{"role": "user", "content": f"{domain[0]}{letter}{number}"}],
            **FIELDS[domain],
        }
        for number, domain in ((number, DOMAINS[number % 3]) for number in range(count))
    ]


def mixed(root: Path) -> list[str]:
    write_assets(root / "tests", {sha256_bytes(TESTS): TESTS})
    names = [(domain, f"{domain[0]}{letter}{n}") for domain in DOMAINS for letter in "tv" for n in "0358"]
    return prepare(
        root,
        rows=rows,
        asked=[(name, ANSWERS[domain]) for domain, name in names],
        domain="mixed",
        prompts={"assets": str(root / "tests")},
        reward={"sandbox": {"test_timeout": 10.0, "slots": 2}},
    )


def lines(root: Path, name: str = "reward.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (only_run(root) / name).read_text().splitlines()]


def sandboxes(pid: int) -> list[psutil.Process]:
    return [child for child in psutil.Process(pid).children() if "sandbox" in child.cmdline()]


def test_a_mixed_stage_goes_on_digit_for_digit(tmp_path: Path) -> None:
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    finish(mixed(undisturbed), tmp_path / "log")
    said = (tmp_path / "log").read_text()
    assert "no stage of the domain mixed was published" in said
    steps = lines(undisturbed)
    assert {name for step in steps for name in step["domains"]} == set(DOMAINS)
    for name in DOMAINS:
        means = [step["domains"][name]["mean_raw_reward"] for step in steps if name in step["domains"]]
        assert any(0 < mean < 1 for mean in means), f"{name}: no judge said both yes and no: {means}"
    assert not any(step["not_judged"] for step in steps)
    evaluation = undisturbed / "results" / "rl_math" / "evaluations" / "version_004.json"
    marker = json.loads(evaluation.read_text())
    assert marker["schema"] == "zgcm-mixed-eval-v1"
    assert {f"eval/domain/{name}/raw_correct" for name in DOMAINS} <= marker["stats"].keys()

    arguments, log = mixed(disturbed), tmp_path / "log of the disturbed"
    process = start(arguments, log)
    wait_until(lambda: "ready after" in log.read_text(), process, log)
    for sandbox in sandboxes(process.pid):  # the first evaluation then starts another
        sandbox.kill()
    wait_until(lambda: steps_done(disturbed) >= 2, process, log)
    left = [*psutil.Process(process.pid).children(recursive=True)]
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    _, alive = psutil.wait_procs(left, timeout=60)
    assert not alive, "processes of the killed run are still there"
    finish(arguments, log)
    assert lines(disturbed) == steps
    assert lines(disturbed, "speed.jsonl")[0]["sandbox_retries"] > 0
    ends = [
        json.loads((root / "results" / "rl_math" / "done").read_text()) for root in (undisturbed, disturbed)
    ]
    assert ends[0]["weights_digest"] == ends[1]["weights_digest"]
    assert ends[0]["inputs"]["code_tests"] == ends[1]["inputs"]["code_tests"]


def wait_until(holds: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + DEADLINE
    while not holds():
        assert process.poll() is None and time.monotonic() < end, log.read_text()
        time.sleep(0.05)


def steps_done(root: Path) -> int:
    files = list(root.glob("results/rl_math/runs/*/reward.jsonl"))
    return files[0].read_bytes().count(b"\n") if files else 0
