"""What a GRPO stage starts from, checked before anything starts: its policy, tokenizer and prompts."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from zgcm import identity, numbers
from zgcm.config.recipe import Recipe
from zgcm.config.rl import FilePrompts, RLStage, steps_per_epoch
from zgcm.errors import ZgcmError
from zgcm.layout import Layout
from zgcm.rl import contract, disjoint, prompts
from zgcm.rl.prompts import Prompt
from zgcm.rl.rewards.registry import checkout_of
from zgcm.rundir import difficulty
from zgcm.rundir.manifest import is_complete, verify_manifest
from zgcm.slurm.launcher import require_job

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


def prepare_run(recipe: Recipe, layout: Layout, name: str) -> tuple[Run, dict[str, Any]]:
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


def say(line: str) -> None:
    """A progress line."""
    print(line, file=sys.stderr, flush=True)
