"""One GRPO stage, from its recipe to `done`: what happens once, before and after the training loop."""

import contextlib
import time
from dataclasses import replace
from functools import partial
from typing import Any

from zgcm import identity, numbers
from zgcm.config.recipe import Recipe
from zgcm.io import read_json, write_json
from zgcm.layout import Layout
from zgcm.rl import attempts, catchup, contract, markers, recover, restarts, sync
from zgcm.rl.experience import policy_directory
from zgcm.rl.prepare import Run, prepare_run, say
from zgcm.rundir import owner
from zgcm.rundir.manifest import is_complete, verify_manifest
from zgcm.rundir.runs import read_lines
from zgcm.stopping import deferring, end_if_asked


def run_stage(recipe: Recipe, layout: Layout, name: str) -> dict[str, Any]:
    """Train a GRPO stage, or continue it. Returns the content of `done`. Raises ZgcmError."""
    run, facts = prepare_run(recipe, layout, name)
    stage, directory = run.stage, run.directory
    with owner.owning(directory, facts["recipe_id"]) as me:
        run = replace(run, check_owner=lambda: owner.check(directory, me.token))
        if is_finished(run):
            say(
                f"{name} is done: all {numbers.counted(stage.steps, 'step')} are trained and evaluated, in "
                f"{directory}; nothing is left to train.\nTo train it anew: rm -r {directory}, and the same "
                "command"
            )
        else:
            catchup.missing(run)  # refuses, before anything starts, what cannot be made again
            differs = {key: list(pair) for key, pair in contract.differences(stage).items()}
            steps = partial(recover.newest_step, directory)
            attempt = attempts.attempt(directory, steps, differs_from_published=differs, **facts)
            with attempt as record, deferring() as asked:
                train = partial(train_with_actors, replace(run, asked_to_stop=asked))
                record["seconds"] = restarts.until_kept(name, stage.steps, directory, train, say)
        done = {
            "stage": name,
            "kind": "rl",
            "basis": identity.basis(recipe, "rl", name),
            **facts,
            **result(run, layout),
        }
        run.check_owner()
        markers.publish(directory, stage.evaluation_versions(), layout.evaluations(name))
        write_json(layout.done(name), done)
    return done


def train_with_actors(run: Run) -> dict[str, float]:
    """Start Ray, engines and learner, train, stop them. Returns seconds by part."""
    from zgcm.rl.actors import Learners, Rollouts
    from zgcm.rl.evaluation import evaluate_and_mark
    from zgcm.rl.grpo import Loop
    from zgcm.rl.nodes import ray_for
    from zgcm.rl.rewards.router import judges

    stage = run.stage
    sync.require_machine(stage)
    cpu = stage.resources.on_cpu
    engines, learning = stage.rollout.engines, stage.learner.processes
    with contextlib.ExitStack() as stack:
        begun = time.monotonic()
        say(
            f"{run.name}: starting Ray, {numbers.counted(engines, 'vLLM engine')} and "
            f"{numbers.counted(learning, 'learner')}; that alone takes about a minute"
        )
        every = [*run.train, *run.valid]
        judging = stack.enter_context(judges(stage, every, run.special_tokens, run.directory))
        logs = run.directory / "logs" / "ray"
        for version in catchup.missing(run):
            end_if_asked()
            say(f"{run.name}: the evaluation of version {version} is gone; making it again from its policy")
            with ray_for(stage, engines, logs):
                policy = catchup.policy_of(run, version)
                verify_manifest(policy)
                rollouts = Rollouts(policy, stage, cpu=cpu, version=version)
                rollouts.wait_ready()
                evaluate_and_mark(run, rollouts, judging, version, resumed=True)
        if is_finished(run):
            return {"evaluation": time.monotonic() - begun}
        end_if_asked()
        stack.enter_context(ray_for(stage, engines + learning, logs))
        ray_seconds = time.monotonic() - begun
        rollouts = Rollouts(run.policy, stage, cpu=cpu)
        learners = Learners(run.policy, stage, cpu=cpu)
        learners.build()
        learners.wait_ready()
        rollouts.wait_ready()
        start_seconds = time.monotonic() - begun - ray_seconds
        say(f"{run.name}: ready after {numbers.duration(ray_seconds + start_seconds)}")
        loop = Loop(run, learners, rollouts, judging, say)
        loop.run()
        return {"ray": ray_seconds, "actors": start_seconds, **loop.seconds}


def is_finished(run: Run) -> bool:
    """Whether an earlier process trained to the end and only publishing is left, or nothing at all."""
    versions = run.stage.evaluation_versions()
    evaluated = all(markers.read_marker(run.directory, version) for version in versions)
    return evaluated and is_complete(policy_directory(run.directory, run.stage.steps))


def result(run: Run, layout: Layout) -> dict[str, Any]:
    """The part of `done` that the run decided; deterministic fields only."""
    policy = policy_directory(run.directory, run.stage.steps)
    evaluations = []
    for version in run.stage.evaluation_versions():
        marker = markers.read_marker(run.directory, version)
        assert marker is not None
        stats = marker["stats"]
        evaluations.append(
            {
                "version": version,
                "mean_raw_reward": stats[markers.RAW_REWARD],
                "completions": stats[markers.COMPLETIONS],
            }
        )
    rewards = list(read_lines(run.directory / "reward.jsonl"))
    return {
        "steps": run.stage.steps,
        "policy": str(policy.relative_to(layout.root)),
        "weights_digest": read_json(policy / "manifest.json")["digest"],
        "evaluations": evaluations,
        "reward_first": rewards[0]["mean_raw_reward"],
        "reward_last": rewards[-1]["mean_raw_reward"],
    }
