"""A whole stage with Ray, vLLM and the learner: it learns, and a kill in the middle changes nothing.

Rollouts run one update ahead, as in the published recipe, so a recover point also holds responses.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet
import pytest
from bandit import prepare

from zgcm.rl import recover
from zgcm.rundir.manifest import verify_manifest

pytestmark = pytest.mark.slow
DEADLINE = 900


KILLS = (
    "zgcm.rl.actors:Learners.step",  # with the next step's rollouts under way
    "zgcm.rl.actors:Learners.save_state",
    "zgcm.rl.evaluation:evaluate",
    "zgcm.rl.actors:Learners.save_policy",
)
"""Inside these; each comes later in a run than the one before. test_loop.py has every moment there is."""
KILLED = """
import importlib, os, signal, threading, time

module, _, name = {place!r}.partition(":")
calls = 0
*owner, method = name.split(".")
thing = importlib.import_module(module)
for part in owner:
    thing = getattr(thing, part)
real = getattr(thing, method)

def fatal(*arguments, **options):
    global calls
    calls += 1
    if calls < {call}:
        return real(*arguments, **options)
    threading.Thread(target=real, args=arguments, kwargs=options, daemon=True).start()
    time.sleep({delay})
    os.killpg(0, signal.SIGKILL)

setattr(thing, method, fatal)
from zgcm.cli import main
main()
"""
ALWAYS = ["-m", "zgcm.cli"]
IN_A_HURRY = """
from zgcm.rl import restarts
restarts.BACK_OFF_SECONDS = (0.1, 0.1, 0.1)
from zgcm.cli import main
main()
"""
MOMENTS = {
    "zgcm.rl.grpo:Loop._sample": 1.0,
    "zgcm.rl.grpo:judge": 0.05,
    "zgcm.rl.actors:Learners.step": 0.3,
    "zgcm.rl.actors:Rollouts.load": 0.1,
    "zgcm.rl.evaluation:evaluate": 1.0,
    "zgcm.rl.markers:write_marker": 0.002,
}
"""Rollout, reward, update, sync, evaluation, marker writing; each with about the seconds that it takes."""
RANDOM_KILLS = 10


def start(arguments: list[str], log: Path, program: Sequence[str] = ALWAYS) -> subprocess.Popen[bytes]:
    """In a process group of its own, as a shell's job is."""
    with log.open("ab") as stream:
        command = [sys.executable, *program, *arguments]
        return subprocess.Popen(command, stdout=stream, stderr=stream, start_new_session=True)


def finish(arguments: list[str], log: Path) -> None:
    process = start(arguments, log)
    assert process.wait(DEADLINE) == 0, log.read_text()


def wait_for_steps(root: Path, process: subprocess.Popen[bytes], steps: int) -> Path:
    """Until reward.jsonl, whose path is returned, has so many lines."""
    rewards = None
    end = time.monotonic() + DEADLINE
    while rewards is None or not rewards.exists() or rewards.read_bytes().count(b"\n") < steps:
        assert process.poll() is None and time.monotonic() < end, (root / "log").read_text()
        time.sleep(0.1)
        rewards = next(root.glob("results/rl_math/runs/*/reward.jsonl"), None)
    return rewards


def only_run(root: Path) -> Path:
    (run,) = (root / "results" / "rl_math" / "runs").iterdir()
    return run


def same_stage(root: Path) -> list[str]:
    return ["rl", "rl_math", "--recipe", str(root / "recipe.yaml"), "--directory", str(root)]


def reward_lines(root: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (only_run(root) / "reward.jsonl").read_text().splitlines()]


def without_time(marker: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in marker.items() if key not in ("completed_at", "phase", "run_id")}


def evaluations(root: Path) -> list[dict[str, Any]]:
    paths = sorted((root / "results" / "rl_math" / "evaluations").iterdir())
    return [without_time(json.loads(path.read_text())) for path in paths]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("undisturbed")
    finish(prepare(root, checkpoints={"save_every_steps": 2}), root / "log")
    return root


def test_stage_learns_and_leaves_what_it_promises(undisturbed: Path) -> None:
    results = undisturbed / "results"
    done = json.loads((results / "rl_math" / "done").read_text())
    assert done["steps"] == 4 and done["kind"] == "rl"
    first, last = done["evaluations"][0], done["evaluations"][-1]
    assert first["completions"] == 24
    assert last["mean_raw_reward"] > first["mean_raw_reward"]
    assert verify_manifest(results / done["policy"])["digest"] == done["weights_digest"]
    run = only_run(undisturbed)
    lines = reward_lines(undisturbed)
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    trained = [line for line in lines if line["trained_responses"]]
    assert trained and [line["policy_lag"] for line in lines] == [0, 1, 1, 1]
    assert lines[0]["logprob_gap_max"] < 1e-3  # the only step whose responses come from the policy it updates
    assert all(line["version_gap_mean"] < 1e-4 for line in lines)  # one and the same policy, after each sync
    assert [marker["model_version"] for marker in evaluations(undisturbed)] == [0, 2, 4]
    gate = json.loads((run / "preflight" / "weight_sync_gate_version_000.json").read_text())
    assert gate["logprob_gap_mean"] < 1e-4


def test_finished_stage_is_not_trained_again(undisturbed: Path) -> None:
    done = undisturbed / "results" / "rl_math" / "done"
    before = done.read_bytes()
    done.unlink()
    finish(same_stage(undisturbed), undisturbed / "log")
    assert done.read_bytes() == before
    said = (undisturbed / "log").read_text()
    assert f"rl_math is done: all 4 steps are trained and evaluated, in {only_run(undisturbed)};" in said
    assert f"To train it anew: rm -r {only_run(undisturbed)}, and the same command" in said
    assert f"policy {undisturbed / 'results' / json.loads(before)['policy']}\n" in said


@pytest.mark.long
def test_missing_evaluations_are_made_again_from_their_policies(undisturbed: Path) -> None:
    """To the same figures: an engine that loads a saved policy is one that was given its weights."""
    before = evaluations(undisturbed)
    (undisturbed / "results" / "rl_math" / "done").unlink()
    made = [only_run(undisturbed) / "evaluations" / f"version_{version:03d}.json" for version in (0, 2)]
    for path in made:
        path.unlink()
    finish(same_stage(undisturbed), undisturbed / "log")
    assert evaluations(undisturbed) == before
    assert [json.loads(path.read_text())["phase"] for path in made] == ["baseline", "resume_catchup"]


@pytest.mark.long
def test_either_half_of_the_loop_gives_its_numbers(undisturbed: Path, tmp_path: Path) -> None:
    """Steps 1 and 2 both learn from responses of version 0: the rollouts are one update ahead."""
    stage = undisturbed / "results" / "rl_math"
    before = {path: path.stat().st_mtime_ns for path in stage.rglob("*")}
    arguments = [*same_stage(undisturbed), "--rollout-only", "--steps", "2"]
    finish([*arguments, "--output", str(tmp_path / "dump")], tmp_path / "log")
    rows = pyarrow.parquet.read_table(tmp_path / "dump").to_pylist()
    assert len(rows) == 2 * 5 * 4 and {row["version"] for row in rows} == {0}
    assert all(len(row["token_ids"]) == len(row["logprobs"]) and row["text"] for row in rows)
    for step in (1, 2):
        rewards = [row["reward"] for row in rows if row["step"] == step]
        assert sum(rewards) / len(rewards) == pytest.approx(
            reward_lines(undisturbed)[step - 1]["mean_reward"]
        )
    finish([*same_stage(undisturbed), "--train-only", str(tmp_path / "dump"), "--json"], tmp_path / "log")
    updates = json.loads((tmp_path / "log").read_text().splitlines()[-1])
    assert [update["step"] for update in updates] == [1, 2]
    for update, line in zip(updates, reward_lines(undisturbed), strict=False):
        assert update.items() <= line.items(), "digit for digit"
    assert {path: path.stat().st_mtime_ns for path in stage.rglob("*")} == before


@pytest.mark.parametrize(
    ("number", "code"),
    [
        pytest.param(signal.SIGKILL, -signal.SIGKILL, id="killed"),
        pytest.param(signal.SIGINT, 130, id="Ctrl-C", marks=pytest.mark.long),
    ],
)
def test_disturbed_run_continues_digit_for_digit(
    undisturbed: Path, tmp_path: Path, number: int, code: int
) -> None:
    arguments = prepare(tmp_path)
    process = start(arguments, tmp_path / "log")
    rewards = wait_for_steps(tmp_path, process, 2)
    group = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, number)
    assert process.wait(DEADLINE) == code
    assert not (tmp_path / "results" / "rl_math" / "done").exists()
    if number == signal.SIGINT:
        step = recover.newest_step(only_run(tmp_path))
        told = f"zgcm: Stopped at your request: rl_math saved step {step} of 4; the same command continues.\n"
        assert (tmp_path / "log").read_text().endswith(told)
        assert rewards.read_bytes().count(b"\n") == step, "the step went to its end"
    finish(arguments, tmp_path / "log")
    assert "continues after step" in (tmp_path / "log").read_text()
    same_end(tmp_path, undisturbed)
    none_left(group)


def kill_inside(arguments: list[str], log: Path, place: str, call: int, delay: float) -> None:
    """kill -9 of the whole process group, `delay` seconds into that call of a function."""
    process = start(arguments, log, ["-c", KILLED.format(place=place, call=call, delay=delay)])
    assert process.wait(DEADLINE) == -signal.SIGKILL, f"{place}\n{log.read_text()}"


def same_end(root: Path, undisturbed: Path) -> None:
    run, other = only_run(root), only_run(undisturbed)
    assert (run / "reward.jsonl").read_bytes() == (other / "reward.jsonl").read_bytes()
    assert evaluations(root) == evaluations(undisturbed)
    mine, theirs = (json.loads((path / "results/rl_math/done").read_text()) for path in (root, undisturbed))
    # the path of the prompt files is part of a recipe's identity
    named = ("basis", "recipe_id", "run_id", "policy")
    assert {**mine, **dict.fromkeys(named)} == {**theirs, **dict.fromkeys(named)}


def none_left(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=60)
    assert not alive, "processes of an earlier run are still there"


@pytest.mark.long
def test_killed_where_it_hurts_it_ends_as_if_it_had_not_been(undisturbed: Path, tmp_path: Path) -> None:
    arguments = prepare(tmp_path)
    draw = random.Random(6)
    for place in KILLS:
        kill_inside(arguments, tmp_path / "log", place, 1, draw.uniform(0, 0.1))
    finish(arguments, tmp_path / "log")
    same_end(tmp_path, undisturbed)
    attempts = json.loads((only_run(tmp_path) / "run.json").read_text())["attempts"]
    assert len(attempts) == len(KILLS) + 1 and not [one for one in attempts[:-1] if "ended" in one]


@pytest.mark.long
def test_ten_kills_at_random_moments_leave_the_log_of_an_undisturbed_run(tmp_path: Path) -> None:
    """Synchronous; every moment of a run at least once."""
    stage = {"rollout": {"max_head_offpolicyness": 0}, "steps": 10, "epochs": 5}
    undisturbed, root = tmp_path / "undisturbed", tmp_path / "killed"
    arguments = prepare(undisturbed, **stage)
    finish(arguments, undisturbed / "log")
    assert [line["policy_lag"] for line in reward_lines(undisturbed)] == [0] * 10
    arguments = prepare(root, **stage)
    draw = random.Random(10)
    places = [*MOMENTS, *draw.choices(list(MOMENTS), k=RANDOM_KILLS - len(MOMENTS))]
    draw.shuffle(places)
    for place in places:
        kill_inside(arguments, root / "log", place, draw.randint(1, 2), draw.uniform(0, MOMENTS[place]))
    finish(arguments, root / "log")
    same_end(root, undisturbed)
    attempts = json.loads((only_run(root) / "run.json").read_text())["attempts"]
    assert len(attempts) == RANDOM_KILLS + 1 and attempts[-1]["from_step"] > 0
    assert not list((root / "results").rglob("*.tmp"))


@pytest.mark.long
def test_an_engine_that_stands_still_is_an_error_in_time(undisturbed: Path, tmp_path: Path) -> None:
    """SIGSTOP: it neither answers nor dies, as a stuck collective."""
    patience = 30
    arguments = prepare(
        tmp_path,
        rollout={"sync_timeout": patience, "request_timeout": patience},
        learner={"timeout": patience},
    )
    process = start(arguments, tmp_path / "log")
    wait_for_steps(tmp_path, process, 1)
    group = psutil.Process(process.pid).children(recursive=True)
    (engine,) = (one for one in group if one.name().startswith("ray::EngineActo"))
    engine.suspend()
    begun = time.monotonic()
    assert process.wait(DEADLINE) == 1
    assert time.monotonic() - begun < 4 * patience
    told = (tmp_path / "log").read_text()
    assert "took too long" in told and f"more than {patience} s" in told
    none_left(group)
    finish(arguments, tmp_path / "log")
    same_end(tmp_path, undisturbed)


@pytest.mark.long
def test_a_dead_engine_and_a_dead_learner_are_started_anew(undisturbed: Path, tmp_path: Path) -> None:
    """kill -9 of the one in a step, of the other while the next start proves its weights."""
    process = start(prepare(tmp_path), tmp_path / "log", ["-c", IN_A_HURRY])
    wait_for_steps(tmp_path, process, 1)
    kill_actor(process, "ray::EngineActo")
    wait_for_line(process, tmp_path / "log", "continues after step")
    kill_actor(process, "ray::LearnerAct")
    assert process.wait(DEADLINE) == 0, (tmp_path / "log").read_text()
    told = [line for line in (tmp_path / "log").read_text().splitlines() if "a new start in 0.1 s" in line]
    assert len(told) == 2 and all("its process died" in line for line in told)
    (attempt,) = json.loads((only_run(tmp_path) / "run.json").read_text())["attempts"]
    assert attempt["to_step"] == 4 and "error" not in attempt
    same_end(tmp_path, undisturbed)


def kill_actor(process: subprocess.Popen[bytes], name: str) -> None:
    every = psutil.Process(process.pid).children(recursive=True)
    (actor,) = (one for one in every if one.name().startswith(name))  # ray::EngineActor.generate
    actor.kill()


def wait_for_line(process: subprocess.Popen[bytes], log: Path, text: str) -> None:
    end = time.monotonic() + DEADLINE
    while text not in log.read_text():
        assert process.poll() is None and time.monotonic() < end, log.read_text()
        time.sleep(0.1)
