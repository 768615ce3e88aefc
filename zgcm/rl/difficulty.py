"""How often the initial policy solves each training prompt, and which prompts a stage trains on.

    measure_shard(recipe, layout, "rl_math", "00000")     # every shard, on any machine, in any order
    gather(recipe, layout, "rl_math")                     # difficulty.parquet, prompts.jsonl

The seed of a prompt's responses is a function of (stage seed, sample_id), so neither the number of shards nor
the order of the jobs changes a byte. Tables: zgcm.rundir.difficulty.
"""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zgcm import identity, numbers
from zgcm.config.recipe import Recipe
from zgcm.config.rl import Difficulty, RLStage
from zgcm.errors import ZgcmError
from zgcm.layout import Layout, shard_name
from zgcm.records import write_records
from zgcm.rl import prompts
from zgcm.rl.environment import CPU_ENVIRONMENT, ENVIRONMENT
from zgcm.rl.prepare import (
    Run,
    initial_policy,
    load_tokenizer,
    prompt_rows,
    read_prompts,
    require_enough,
    rl_stage,
    say,
)
from zgcm.rl.prompts import Prompt
from zgcm.rl.rewards.router import Judges, judges
from zgcm.rl.rewards.shaping import mean
from zgcm.rl.steps import by_kind, score
from zgcm.rl.trajectory import Request, Response, seed_of
from zgcm.rundir import difficulty as tables
from zgcm.rundir.difficulty import Row

if TYPE_CHECKING:
    from zgcm.rl.rollout import Engine

PROMPTS_AT_ONCE = 128
"""Given to the engine together: 1,024 responses of 65,536 tokens with log-probabilities take some 4 GB."""


def measure_shard(recipe: Recipe, layout: Layout, name: str, shard: str) -> dict[str, Any]:
    """Sample and judge responses to every `shards`-th training prompt; write the shard's table.

    Prompts that another shard's table already has, made with the same things (before `shards` was changed),
    are taken from there. Returns counts. Raises ZgcmError.
    """
    stage, settings = difficult_stage(recipe, name)
    names = [shard_name(index) for index in range(settings.shards)]
    if shard not in names:
        raise ZgcmError(
            "No such shard of the prompts", where=f"stages.{name}.difficulty.shards", found=shard,
            expected=f"{names[0]} to {names[-1]}",
        )  # fmt: skip
    run, made_with = opened(recipe, layout, name, stage)
    target = layout.pass_rates(name, shard, settings.shards)
    mine = list(enumerate(run.train))[int(shard) :: settings.shards]
    known = measured_before(target.parent, made_with)
    missing = [(row, prompt) for row, prompt in mine if prompt.sample_id not in known]
    if missing:
        from zgcm.rl.rollout import Engine

        cpu = settings.resources.on_cpu
        os.environ.update(ENVIRONMENT | (CPU_ENVIRONMENT if cpu else {}))
        say(f"{name}: starting a vLLM engine for {numbers.counted(len(missing), 'prompt')}")
        engine = Engine(run.policy, stage.rollout, stage.seed, cpu=cpu)
        some = [prompt for _, prompt in missing]
        with judges(stage, some, run.special_tokens, layout.stage(name) / "difficulty" / shard) as judging:
            rows = measure(run, missing, engine, judging)
        known |= {row["sample_id"]: row for row in rows}
    found = [known[prompt.sample_id] for _, prompt in mine]
    tables.write_table(target, tables.MEASURED, found, made_with)
    return {
        "stage": name,
        "shard": shard,
        "shards": settings.shards,
        "prompts": len(found),
        "measured": len(missing),
        "responses": sum(row["samples"] for row in found),
        "passes": sum(row["passes"] for row in found),
        "not_judged": sum(row["not_judged"] for row in found),
        "output": str(target),
    }


def measure(run: Run, asked: Sequence[tuple[int, Prompt]], engine: "Engine", judging: Judges) -> list[Row]:
    """A row for each (place, prompt), in order."""
    stage = run.stage
    assert stage.difficulty is not None
    sampling = stage.rollout.sampling.model_copy(update={"n_samples": stage.difficulty.samples})
    rows: list[Row] = []
    for start in range(0, len(asked), PROMPTS_AT_ONCE):
        part = asked[start : start + PROMPTS_AT_ONCE]
        some = [prompt for _, prompt in part]
        requests = [
            Request(prompt.token_ids, seed_of(stage.seed, "difficulty", prompt.sample_id)) for prompt in some
        ]
        groups = engine.generate(requests, sampling)
        rewards, not_judged = score(run, judging, some, groups, sampling.max_new_tokens)
        rows += [
            row_of(place, prompt, group, values, kinds)
            for (place, prompt), group, values, kinds in zip(part, groups, rewards, not_judged, strict=True)
        ]
        rate = numbers.percent(mean([row["pass_rate"] for row in rows]))
        without = "".join(f", {count} {kind}" for kind, count in sorted(by_kind(not_judged).items()))
        say(f"{run.name}: {len(rows):,} of {len(asked):,} prompts, mean pass rate {rate}{without}")
    return rows


def row_of(
    place: int,
    prompt: Prompt,
    group: Sequence[Response],
    rewards: Sequence[float],
    not_judged: Sequence[str],
) -> Row:
    passes = sum(value == 1.0 for value in rewards)
    return {
        "row": place,
        "sample_id": prompt.sample_id,
        "domain": prompt.domain,
        "samples": len(group),
        "passes": passes,
        "pass_rate": passes / len(group),
        "not_judged": sum(map(bool, not_judged)),
        "mean_reward": mean(rewards),
        "mean_tokens": mean([len(response.token_ids) for response in group]),
        "truncated": mean([response.finish_reason == "length" for response in group]),
    }


def gather(recipe: Recipe, layout: Layout, name: str) -> dict[str, Any]:
    """All shards' rows with the decision about each prompt, and the kept prompts as they stand in their file.

    Returns counts. Raises ZgcmError for shards that are missing or made with something else, and when the
    kept prompts do not last for the stage's steps; nothing is written then.
    """
    stage, settings = difficult_stage(recipe, name)
    source_then = tables.prompts_file(stage)
    run, made_with = opened(recipe, layout, name, stage)
    rows = read_shards(layout, name, settings.shards, run.train, made_with)
    for row in rows:
        row["reason"] = tables.reason(row["pass_rate"], settings.min_pass_rate, settings.max_pass_rate)
        row["kept"] = not row["reason"]
    reasons = Counter(row["reason"] for row in rows if row["reason"])
    counts = tables.histogram(rows)
    kept = {row["sample_id"] for row in rows if row["kept"]}
    left_out = " and ".join(f"{number} {reason}" for reason, number in sorted(reasons.items()))
    require_enough(
        stage,
        [prompt for prompt in run.train if prompt.sample_id in kept],
        where=f"stages.{name}.difficulty",
        why=f"{left_out or 'none'} of {len(rows)} left out; {tables.in_words(counts)}",
        hint="widen min_pass_rate or max_pass_rate, ",
    )
    where, source, _ = prompt_rows(stage, "train")
    if tables.prompts_file(stage) != source_then:
        raise ZgcmError("The prompts changed while they were read", where=where, hint="run it again")
    layout.difficulty(name).unlink(missing_ok=True)  # must not vouch for the prompts of another choice
    write_records(layout.kept_prompts(name), (row for _, row in source if str(row["sample_id"]) in kept))
    chosen_by = {"recipe_id": identity.recipe_id(recipe, "difficulty", name), "prompts_file": source_then}
    decided = made_with | chosen_by
    tables.write_table(layout.difficulty(name), tables.DECIDED, rows, decided)
    return {
        "stage": name,
        "prompts": len(rows),
        "kept": len(kept),
        **{reason: reasons[reason] for reason in ("too_easy", "too_hard")},
        "not_judged": sum(row["not_judged"] for row in rows),
        "prompts_by_passes": list(counts.values()),
        "output": str(layout.difficulty(name)),
    }


def read_shards(
    layout: Layout, name: str, shards: int, train: Sequence[Prompt], made_with: dict[str, str]
) -> list[Row]:
    """The rows of every shard, in the prompts' order. Raises ZgcmError."""
    rows: list[Row] = []
    for index in range(shards):
        path = layout.pass_rates(name, shard_name(index), shards)
        again = f"make it with: zgcm pass-rates {name} {shard_name(index)}"
        if not path.is_file():
            raise ZgcmError("A shard of the pass rates is missing", where=str(path), hint=again)
        with_ = tables.read_made_with(path)
        differing = sorted(key for key in made_with if with_.get(key) != made_with[key])
        if differing:
            raise ZgcmError(
                "A shard of the pass rates is of something else", where=str(path),
                found=f"another {', '.join(differing)}", hint=again,
            )  # fmt: skip
        rows += tables.read_table(path)[0]
    rows.sort(key=lambda row: row["row"])
    if [row["sample_id"] for row in rows] != [prompt.sample_id for prompt in train]:
        raise ZgcmError(
            "The shards do not hold each training prompt once", where=str(layout.stage(name) / "difficulty"),
            found=f"{len(rows)} rows", expected=f"{len(train)}", hint="remove it and run them again",
        )  # fmt: skip
    return rows


def measured_before(directory: Path, made_with: dict[str, str]) -> dict[str, Row]:
    """sample_id -> row of every table in the directory that was made with the same things."""
    found: dict[str, Row] = {}
    for path in sorted(directory.glob("*.parquet")):
        if tables.read_made_with(path) == made_with:
            found |= {row["sample_id"]: row for row in tables.read_table(path)[0]}
    return found


def opened(recipe: Recipe, layout: Layout, name: str, stage: RLStage) -> tuple[Run, dict[str, str]]:
    """Initial policy, all prompts and tokenizer as judging wants them, and what they are."""
    policy, policy_digest = initial_policy(layout, stage)
    tokenizer, special_tokens = load_tokenizer(policy)
    train, valid = read_prompts(name, stage, policy, tokenizer)
    run = Run(name, stage, policy, layout.stage(name), train, valid, tokenizer, special_tokens)
    made_with = {
        "recipe_id": identity.recipe_id(recipe, "pass_rates", name),
        "policy": policy_digest,
        "prompts": prompts.digest(train),
    }
    return run, made_with


def difficult_stage(recipe: Recipe, name: str) -> tuple[RLStage, Difficulty]:
    """Raises ZgcmError for a stage without the step."""
    stage = rl_stage(recipe, name)
    if stage.difficulty is None:
        raise ZgcmError(
            "This stage trains on all of its prompts", where=f"stages.{name}.difficulty", found="no such key",
            hint="give it bounds, for instance {max_pass_rate: 0.75}",
        )  # fmt: skip
    return stage, stage.difficulty
