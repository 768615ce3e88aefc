"""One GRPO stage, from its recipe to `done`: what happens once, before and after the training loop."""

import contextlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from zgcm import identity, numbers
from zgcm.config.recipe import Recipe
from zgcm.config.rl import FilePrompts, RLStage, steps_per_epoch
from zgcm.errors import ZgcmError
from zgcm.io import read_json, write_json
from zgcm.layout import Layout
from zgcm.rl import attempts, catchup, contract, disjoint, markers, prompts, recover, restarts, sync
from zgcm.rl.prompts import Prompt
from zgcm.rl.rewards.registry import checkout_of
from zgcm.rundir import difficulty, owner
from zgcm.rundir.manifest import is_complete, verify_manifest
from zgcm.rundir.runs import read_lines
from zgcm.slurm.launcher import require_job
from zgcm.stopping import deferring, end_if_asked

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True)
class Run:
    """What the training loop needs to know about a run."""

    name: str
    stage: RLStage
    policy: Path
    """Hugging Face directory of the initial policy."""
    directory: Path
    train: list[Prompt]
    valid: list[Prompt]
    tokenizer: "Tokenizer"
    special_tokens: list[str]
    check_owner: Callable[[], None] = lambda: None
    """Call before publishing anything: raises when another process took the run over."""
    asked_to_stop: Callable[[], int] = lambda: 0
    """The signal of a request to stop, 0 while there is none."""


def prepare(recipe: Recipe, layout: Layout, name: str) -> tuple[Run, dict[str, Any]]:
    """The run of a stage, checked and not yet owned, and what identifies it. Raises ZgcmError."""
    stage = rl_stage(recipe, name)
    require_job(stage.resources.nodes)
    say(contract.remark(name, stage))
    policy, policy_digest = initial_policy(layout, stage)
    tokenizer, special_tokens = load_tokenizer(policy)
    kept = None
    if stage.difficulty is not None:
        kept = difficulty.require_kept(recipe, layout, name, policy_digest)
    train, valid = read_prompts(name, stage, policy, tokenizer, kept)
    require_enough(stage, train)
    recipe_id = identity.recipe_id(recipe, "rl", name)
    inputs = {
        "policy": policy_digest,
        "prompts_train": prompts.digest(train),
        "prompts_valid": prompts.digest(valid),
        **prompts.tests_digest([*train, *valid]),
    }
    run_id = identity.run_id(recipe_id, inputs)
    directory = layout.runs(name) / run_id
    run = Run(name, stage, policy, directory, train, valid, tokenizer, special_tokens)
    return run, {"recipe_id": recipe_id, "run_id": run_id, "inputs": inputs}


def run_stage(recipe: Recipe, layout: Layout, name: str) -> dict[str, Any]:
    """Train a GRPO stage, or continue it. Returns the content of `done`. Raises ZgcmError."""
    run, facts = prepare(recipe, layout, name)
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


def rl_stage(recipe: Recipe, name: str) -> RLStage:
    return recipe.stage_of(RLStage, name, "`zgcm rl` trains")


def initial_policy(layout: Layout, stage: RLStage) -> tuple[Path, str]:
    """The exported directory that the stage starts from, and the digest of its files."""
    directory = layout.export(stage.init)
    if not is_complete(directory):
        raise ZgcmError(
            "The initial policy is missing",
            where=str(directory),
            hint=f"make it with: zgcm export {stage.init}",
        )
    manifest = verify_manifest(directory)
    for file in ("config.json", "tokenizer.json", "chat_template.jinja"):
        if not (directory / file).is_file():
            raise ZgcmError("The initial policy lacks a file", where=str(directory / file))
    return directory, manifest["digest"]


def load_tokenizer(policy: Path) -> "tuple[Tokenizer, list[str]]":
    """The policy's tokenizer, and the texts of its special tokens."""
    from zgcm.tokens.tokenizer import read_tokenizer

    tokenizer = read_tokenizer(policy)
    added = tokenizer.get_added_tokens_decoder().values()
    return tokenizer, [token.content for token in added if token.special]


def read_prompts(
    name: str, stage: RLStage, policy: Path, tokenizer: "Tokenizer", kept: Path | None = None
) -> tuple[list[Prompt], list[Prompt]]:
    """Validated training and validation prompts, disjoint; with `kept` the training prompts of that file
    only, which `zgcm difficulty` made of the recipe's."""
    from zgcm.tokens.chat import render

    def encode(messages: list[dict[str, Any]]) -> list[int]:
        text = render(messages, policy, add_generation_prompt=True, enable_thinking=True)
        return tokenizer.encode(text, add_special_tokens=False).ids

    def validated(source: str, rows: list[Numbered], expected: int | None) -> list[Prompt]:
        return prompts.validate(
            rows,
            encode,
            domain=stage.domain,
            max_prompt_tokens=stage.max_prompt_tokens,
            expected_rows=expected,
            source=source,
            checkout=checkout_of(stage.reward),
        )

    valid = validated(*prompt_rows(stage, "valid"))
    if kept is None:
        train = validated(*prompt_rows(stage, "train"))
    else:
        train = validated(str(kept), list(prompts.read_rows(kept)), None)
    if isinstance(stage.prompts, FilePrompts) and stage.prompts.overlap == "drop":
        train = without_overlaps(name, train, valid)
    else:
        disjoint.check_disjoint(train, valid)
    return train, valid


Numbered = tuple[str, dict[str, Any]]
"""(file:line, row)."""


def prompt_rows(stage: RLStage, split: Literal["train", "valid"]) -> tuple[str, list[Numbered], int | None]:
    """Of a split its name for messages, its rows as they are, and how many there must be."""
    source = stage.prompts
    if isinstance(source, FilePrompts):
        path = getattr(source, split)
        return path, list(prompts.read_rows(Path(path))), getattr(source, f"expected_{split}_rows")
    from zgcm.rl import demo

    made = demo.rows(stage, split)
    return f"demo {split} prompts", [(f"demo {split} prompt {n}", row) for n, row in enumerate(made)], None


def without_overlaps(name: str, train: list[Prompt], valid: list[Prompt]) -> list[Prompt]:
    """Training prompts that repeat no evaluation prompt; says how many do."""
    found = {overlap.train.sample_id for overlap in disjoint.overlaps(train, valid)}
    if found:
        say(
            f"{name}: {numbers.counted(len(found), 'training prompt')} of {len(train):,} left out, "
            "since they repeat an evaluation prompt"
        )
    return [prompt for prompt in train if prompt.sample_id not in found]


def require_enough(
    stage: RLStage, train: list[Prompt], *, where: str = "", why: str = "", hint: str = ""
) -> None:
    """Raises ZgcmError when the prompts do not last for the stage's steps; `why`: where the others went."""
    per_epoch = steps_per_epoch(len(train), stage.batch_size, stage.drop_last)
    if stage.epochs * per_epoch >= stage.steps:
        return
    found = f"{len(train)} prompts, enough for {stage.epochs * per_epoch} steps in {stage.epochs} epoch(s)"
    raise ZgcmError(
        "Too few training prompts",
        where=where,
        found=f"{found}; {why}" if why else found,
        expected=f"{stage.steps} steps of {stage.batch_size} prompts",
        hint=f"{hint}give more prompts or epochs, or fewer steps",
    )


def is_finished(run: Run) -> bool:
    """Whether an earlier process trained to the end and only publishing is left, or nothing at all."""
    from zgcm.rl.experience import policy_directory

    versions = run.stage.evaluation_versions()
    evaluated = all(markers.read_marker(run.directory, version) for version in versions)
    return evaluated and is_complete(policy_directory(run.directory, run.stage.steps))


def result(run: Run, layout: Layout) -> dict[str, Any]:
    """The part of `done` that the run decided; deterministic fields only."""
    from zgcm.rl.experience import policy_directory

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


def say(line: str) -> None:
    """A progress line."""
    print(line, file=sys.stderr, flush=True)
