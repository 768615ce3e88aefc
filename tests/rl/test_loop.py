"""The training loop with quick engines: the order of its calls, and death at every moment of a run.

test_stage.py does the latter to real processes, at a few moments.
"""

import json
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fakes
import pytest
from bandit import DIGITS, prepare
from fakes import NOTHING, Engine, Killed, Moments, use
from tokenizers import Tokenizer

from zgcm import stopping
from zgcm.config.load import load_recipe
from zgcm.errors import ZgcmError
from zgcm.layout import Layout
from zgcm.rl import run
from zgcm.rl.markers import PHASES
from zgcm.rl.prepare import prepare_run
from zgcm.rl.trajectory import Comparison
from zgcm.stopping import Interrupted, Stopped

KILLS_IN_A_ROW = 12
REQUESTS = 12


class Stage:
    """One prepared stage, run in as many directories as a test likes."""

    def __init__(self, root: Path, ahead: int) -> None:
        prepare(root, rollout={"max_head_offpolicyness": ahead}, checkpoints={"save_every_steps": 2})
        self.recipe = load_recipe([root / "recipe.yaml"])
        self.prepared, self.facts = prepare_run(self.recipe, Layout(root / "results"), "rl_math")
        tokenizer = Tokenizer.from_file(str(root / "results/export/sft/tokenizer.json"))
        texts = [f"w</think>\\boxed{{{digit}}}<|endoftext|>" for digit in DIGITS]
        self.answers = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]

    def train(self, root: Path, fatal: int | None = None, moments: Moments | None = None) -> Moments:
        """The stage from wherever `root` is, to its end or to the fatal moment."""
        moments = moments or Moments(fatal)
        layout = Layout(root / "results")
        here = replace(self.prepared, directory=layout.runs("rl_math") / self.facts["run_id"])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run, "prepare_run", lambda *_: (here, self.facts))
            use(patch, moments, self.answers)
            try:
                run.run_stage(self.recipe, layout, "rl_math")
            except Killed:
                (here.directory / "owner.json").unlink(
                    missing_ok=True
                )  # its process would be dead; ours lives
                raise
        return moments


@pytest.fixture(scope="module", params=[0, 1], ids=["synchronous", "one step ahead"])
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage(tmp_path_factory.mktemp("stage"), request.param)


def end(root: Path) -> dict[str, Any]:
    """All that may not depend on what happened on the way."""
    results = root / "results/rl_math"
    (directory,) = (results / "runs").iterdir()
    markers = {}
    for path in sorted((results / "evaluations").iterdir()):
        marker = json.loads(path.read_text())
        assert marker.pop("phase") in PHASES and marker.pop("completed_at")
        markers[path.name] = marker
    assert {"version_000.json", "version_004.json"} <= markers.keys()
    steps = (directory / "reward.jsonl").read_bytes()
    digests = [json.loads(line)["advantages_digest"] for line in steps.splitlines()]
    assert len(set(digests)) == len(digests) == 4, "equal steps are told by their advantages too"
    return {
        "markers": markers,
        "done": (results / "done").read_bytes(),
        "steps": steps,
        "policies": sorted(path.name for path in (directory / "policies").iterdir()),
    }


@pytest.mark.long
def test_a_kill_at_any_moment_changes_nothing(stage: Stage, tmp_path: Path) -> None:
    moments = stage.train(tmp_path / "undisturbed")
    expected = end(tmp_path / "undisturbed")
    assert expected["steps"].count(b"\n") == 4
    for fatal, name in enumerate(moments.names, start=1):
        root = tmp_path / str(fatal)
        with pytest.raises(Killed):
            stage.train(root, fatal)
        stage.train(root)
        assert end(root) == expected, f"killed {name} ({fatal})"


def test_the_gates_say_which_versions_were_held(stage: Stage, tmp_path: Path) -> None:
    names = stage.train(tmp_path / "whole").names
    last_point = len(names) - names[::-1].index("before Engine.load")
    with pytest.raises(Killed):
        stage.train(tmp_path / "killed", last_point)
    stage.train(tmp_path / "killed")
    (preflight,) = (tmp_path / "killed").glob("results/rl_math/runs/*/preflight")
    gates = [json.loads(path.read_text()) for path in sorted(preflight.iterdir())]
    assert sorted(gate["model_version"] for gate in gates) == [0, 3]
    for gate in gates:
        version = gate["model_version"]
        before, after = gate["versions_before"], gate["versions_after"]
        assert after == {"actor": version, "rollout": version, "eval_rollout": version}
        assert before == {"actor": version, "rollout": NOTHING, "eval_rollout": NOTHING}


def test_engines_of_different_versions_do_not_pass_the_gate(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for held, named in (([0, 1], "different versions"), ([7, 7], "another version")):
        monkeypatch.setattr(Engine, "versions", lambda _, held=held: held)
        with pytest.raises(ZgcmError, match=named):
            stage.train(tmp_path / named)
        assert not list((tmp_path / named).glob("results/rl_math/runs/*/evaluations/*"))


def test_killed_again_and_again(stage: Stage, tmp_path: Path) -> None:
    total = len(stage.train(tmp_path / "undisturbed").names)
    root = tmp_path / "killed"
    draw = random.Random(7)
    for _ in range(KILLS_IN_A_ROW):
        try:
            stage.train(root, draw.randrange(1, total // 2))
        except Killed:
            continue
    stage.train(root)
    assert end(root) == end(tmp_path / "undisturbed")


def test_engines_that_are_off_after_an_update_stop_the_run(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gate has passed, and what the update itself compares may be of an older version."""
    steps, step, compare = [], fakes.Learner.step, fakes.Learner.compare

    def noted(learner: fakes.Learner, *arguments: Any) -> dict[str, float]:
        steps.append(1)
        return step(learner, *arguments)

    def off(learner: fakes.Learner, batch: list[Any]) -> Comparison:
        return replace(compare(learner, batch), gap_mean=2e-3 if len(steps) > 1 else 0.0)

    monkeypatch.setattr(fakes.Learner, "step", noted)
    monkeypatch.setattr(fakes.Learner, "compare", off)
    with pytest.raises(ZgcmError, match="disagree") as caught:
        stage.train(tmp_path)
    assert caught.value.where == "version 2"
    (rewards,) = tmp_path.rglob("reward.jsonl")
    assert [json.loads(line)["version_gap_mean"] for line in rewards.read_text().splitlines()] == [0.0]


class Asked(Moments):
    """At the moment a request to stop comes, and nothing dies of it."""

    def pass_by(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) == self.fatal:
            signal.raise_signal(signal.SIGTERM)


@pytest.fixture
def answering_requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """As in a verb; the function forgets earlier requests."""
    before = {number: signal.getsignal(number) for number in stopping.REQUESTS}
    stopping.end_in_order()
    yield lambda: monkeypatch.setattr(stopping, "received", [])
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_request_to_stop_at_any_moment_loses_nothing(
    stage: Stage, tmp_path: Path, answering_requests: Callable[[], None]
) -> None:
    names = stage.train(tmp_path / "undisturbed").names
    expected = end(tmp_path / "undisturbed")
    draw = random.Random(8)
    stopped = 0
    for moment in sorted(draw.sample(range(1, len(names) + 1), REQUESTS)):
        answering_requests()
        moments, root = Asked(moment), tmp_path / str(moment)
        try:
            stage.train(root, moments=moments)
        except (Stopped, Interrupted) as stop:
            assert stop.code == 128 + signal.SIGTERM
            stopped += 1
            assert moments.names[moment:].count("before Learner.step") <= 1, "it goes on after the step"
        answering_requests()
        stage.train(root)
        assert end(root) == expected, f"asked {names[moment - 1]} ({moment})"
    assert stopped > REQUESTS / 2


def test_asked_to_stop_before_the_first_step_it_samples_no_more(
    stage: Stage, tmp_path: Path, answering_requests: Callable[[], None]
) -> None:
    answering_requests()
    names = stage.train(tmp_path / "undisturbed").names
    moments = Asked(names.index("before Learner.compare") + 1)
    with pytest.raises(Stopped, match="rl_math had saved no step yet"):
        stage.train(tmp_path / "asked", moments=moments)
    assert moments.names.count("before Engine.start") == 1, "the gate's, and no evaluation"


def without_markers(root: Path, *versions: int) -> Path:
    """The run's directory, its stage not published and these evaluations gone."""
    (root / "results/rl_math/done").unlink()
    shutil.rmtree(root / "results/rl_math/evaluations")
    (directory,) = (root / "results/rl_math/runs").iterdir()
    for version in versions:
        (directory / "evaluations" / f"version_{version:03d}.json").unlink()
    return directory


def test_a_missing_evaluation_is_made_again_from_its_policy(stage: Stage, tmp_path: Path) -> None:
    stage.train(tmp_path)
    expected = end(tmp_path)
    assert (
        expected["markers"]["version_000.json"]["stats"] != expected["markers"]["version_002.json"]["stats"]
    )
    without_markers(tmp_path, 0, 2)
    names = stage.train(tmp_path).names
    assert end(tmp_path) == expected and "before Learner.step" not in names


def test_what_the_error_of_a_missing_evaluation_says_helps(stage: Stage, tmp_path: Path) -> None:
    stage.train(tmp_path)
    expected = end(tmp_path)
    directory = without_markers(tmp_path, 2)
    (directory / "policies" / "version_002" / "manifest.json").unlink()
    with pytest.raises(ZgcmError, match="training has passed is missing, and so is its policy") as caught:
        stage.train(tmp_path)
    for path in str(caught.value.hint).split("rm -r ")[1].split():
        shutil.rmtree(path)
    stage.train(tmp_path)
    assert end(tmp_path) == expected


def test_rollouts_overlap_the_update_only_when_asked_to(stage: Stage, tmp_path: Path) -> None:
    """The next step's responses are begun before the update and awaited after it, from the older policy."""
    names = stage.train(tmp_path).names
    ahead = stage.prepared.stage.rollout.max_head_offpolicyness
    calls = [
        name.split(".")[1]
        for name in names
        if name.startswith("before Engine") or name == "before Learner.step"
    ]
    (directory,) = (tmp_path / "results/rl_math/runs").iterdir()
    lags = [json.loads(line)["policy_lag"] for line in (directory / "reward.jsonl").read_text().splitlines()]
    first = calls.index("step")
    if ahead:
        assert calls[first - 1 : first + 3] == ["start", "step", "collect", "load"]
        assert lags == [0, 1, 1, 1]
    else:
        assert calls[first - 2 : first + 2] == ["start", "collect", "step", "load"]
        assert lags == [0, 0, 0, 0]
