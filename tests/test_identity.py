"""What decides an id: every semantic key of exactly the right steps, and no execution key at all."""

import json
import os
import random
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zgcm.config.base import Section, is_execution
from zgcm.config.keys import is_section, variants
from zgcm.config.load import load_recipe, read_mapping, validate_recipe
from zgcm.config.recipe import Recipe
from zgcm.config.stages import TrainStage
from zgcm.identity import basis, changed_keys, recipe_id, run_id, steps
from zgcm.layout import source_shards

ROOT = Path(__file__).parents[1]
TINY = load_recipe([ROOT / "config/tiny.yaml"])
BIG = load_recipe([ROOT / "config/zgcm-7b.yaml"])

Step = tuple[str, str]
KeyPath = tuple[str, ...]


# --- a recipe with one key changed --------------------------------------------------------------------------


def key_paths(
    value: Section, prefix: KeyPath = (), inert: bool = False
) -> Iterator[tuple[KeyPath, Any, bool]]:
    """(path, field, whether it is execution) for every key of a loaded recipe that is not a whole section."""
    for name, field in type(value).model_fields.items():
        path, execution, item = (*prefix, name), inert or is_execution(field), getattr(value, name)
        if isinstance(item, Section):
            yield from key_paths(item, path, execution)
        elif isinstance(item, dict) and item and all(isinstance(part, Section) for part in item.values()):
            for key, part in item.items():
                yield from key_paths(part, (*path, key), execution)
        else:
            yield path, field, execution


def another(value: Any, field: Any) -> Any:
    """Some other value of the same kind; the ids do not validate, so it need not make sense."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, list):
        return [*value, "x"]
    if isinstance(value, dict):
        return {**value, "x": 1.0}
    kind = next(iter(variants(field.annotation)))
    while typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]
    if is_section(kind):
        required = (name for name, field in kind.model_fields.items() if field.is_required())
        return kind.model_construct(**dict.fromkeys(required, "x"))
    return {int: 7, str: "x"}.get(kind) or typing.get_args(kind)[0]


def changed(value: Any, path: KeyPath, field: Any) -> Any:
    """A copy with one key changed, unvalidated."""
    head, rest = path[0], path[1:]
    if isinstance(value, dict):
        return {**value, head: changed(value[head], rest, field)}
    old = getattr(value, head)
    return value.model_copy(update={head: changed(old, rest, field) if rest else another(old, field)})


def ids(recipe: Recipe) -> dict[Step, str]:
    return {step: recipe_id(recipe, *step) for step in steps(recipe)}


# --- which steps a key should decide, from the recipe's own references --------------------------------------


RAW = {
    *("kind", "content", "shards", "documents", "seed", "settings", "files", "repo", "revision", "subset"),
    *("max_digit", "careless_share", "document_chars", "planted"),
}


def owners(recipe: Recipe, path: KeyPath) -> set[Step]:
    section, name = path[0], path[1] if len(path) > 1 else ""
    if section == "model":
        kinds = {"export"} if name == "export_vocab_size_divisible_by" else {"export", "train"}
        return {step for step in steps(recipe) if step[0] in kinds}
    if section == "tokenizer":
        return {("tokenizer", "")}
    if section == "sources":
        if path[2] == "include":
            return {("mix", mix) for mix, found in recipe.mixes.items() if name in found.sources}
        return {("raw" if path[2] in RAW else "clean", name)}
    if section == "mixes":
        return {("mix", name)}
    if path[2] == "spikes" and path[3] != "policy":
        return set()  # with `policy: stop` thresholds decide whether a run ends, never how
    if path[2:4] == ("reward", "sandbox") and recipe.stages[name].domain in ("math", "if"):
        return set()  # no program runs
    assert section == "stages", f"a new section, {section}: say here which steps it decides"
    stage = recipe.stages[name]
    if isinstance(stage, TrainStage):
        return {("train", name)}
    if path[2] == "difficulty":
        return {("pass_rates" if path[3] == "samples" else "difficulty", name)}
    measured = stage.difficulty is not None and path[2] in MEASURED and not set(path) & UNMEASURED
    return {("rl", name), *([("pass_rates", name)] if measured else [])}


MEASURED = {"domain", "prompts", "seed", "max_prompt_tokens", "rollout", "reward"}
UNMEASURED = {"n_samples", "max_head_offpolicyness", "length_penalty"}
"""Of the keys of an RL stage, what decides the responses that pass rates come from."""


def dependents(recipe: Recipe) -> dict[Step, set[Step]]:
    """step -> the steps built directly on it."""
    found: dict[Step, set[Step]] = {step: set() for step in steps(recipe)}
    for source in recipe.sources:
        found["raw", source] |= {("clean", source)}
        found["clean", source] |= {("fingerprint", source), ("index", source)}
        found["tokenizer", ""] |= {("index", source)}
    for source in recipe.tokenizer.sources if recipe.tokenizer.kind == "train" else ():
        found["clean", source] |= {("tokenizer", "")}
    for name, mix in recipe.mixes.items():
        for source in mix.sources:
            found["fingerprint", source] |= {("mix", name)}
            found["index", source] |= {("mix", name)}
        for other in mix.exclude:
            found["mix", other] |= {("mix", name)}
    for name, stage in recipe.stages.items():
        own = ("train" if isinstance(stage, TrainStage) else "rl", name)
        found[own] |= {("export", name)}
        if isinstance(stage, TrainStage):
            found["tokenizer", ""] |= {own}
            for mix in stage.mix:
                found["mix", mix] |= {own}
            if stage.init:
                found["train", stage.init] |= {own}
        else:
            found["export", str(stage.init)] |= {own}
            if stage.difficulty is not None:
                found["export", str(stage.init)] |= {("pass_rates", name)}
                found["pass_rates", name] |= {("difficulty", name)}
                found["difficulty", name] |= {own}
        found["tokenizer", ""] |= {("export", name)}
    return found


def with_descendants(recipe: Recipe, start: set[Step]) -> set[Step]:
    graph, seen, todo = dependents(recipe), set(start), list(start)
    while todo:
        new = graph[todo.pop()] - seen
        seen |= new
        todo += new
    return seen


def structural(path: KeyPath) -> bool:
    """Keys that name another step: a changed one names a step that does not exist."""
    return (
        path[-1] in ("init", "mix", "exclude", "against")
        or path[-1] == "difficulty"  # adds steps
        or (path[0] == "mixes" and path[-1] == "sources")
        or path in (("tokenizer", "sources"), ("tokenizer", "kind"))
        or (path[0] == "sources" and path[-1] == "lock")
    )


@pytest.mark.parametrize(
    ("recipe", "stages"),
    [
        (TINY, set(TINY.stages)),
        (BIG, {"midtrain_256k", "rl_code"}),
    ],  # the big one: the other kinds of sections
    ids=["tiny", "zgcm-7b"],
)
def test_every_key_decides_exactly_the_steps_it_should(recipe: Recipe, stages: set[str]) -> None:
    before, wrong, seen = ids(recipe), [], {True: 0, False: 0}
    shown: set[tuple[str, ...]] = set()
    for path, field, execution in key_paths(recipe):
        kind = (path[0], *path[2:]) if path[0] in ("sources", "mixes") else path
        if structural(path) or kind in shown:  # one source and one mix stand for all of them
            continue
        if path[0] == "stages" and path[1] not in stages:
            continue
        shown.add(kind)
        after = ids(changed(recipe, path, field))
        found = {step for step, value in after.items() if value != before[step]}
        expected = set() if execution else with_descendants(recipe, owners(recipe, path))
        seen[execution] += 1
        if found != expected:
            wrong.append((".".join(path), sorted(found - expected), sorted(expected - found)))
    assert not wrong, "(key, steps it should not change, steps it should change)"
    assert min(seen.values()) > 50


def test_a_new_sft_source_leaves_pretraining_and_midtraining_alone() -> None:
    data = read_mapping(ROOT / "config/tiny.yaml")
    data["sources"]["more"] = {**data["sources"]["demo_conversations"], "seed": 5}
    data["mixes"]["sft"]["sources"]["more"] = 0.5
    before, after = ids(TINY), ids(validate_recipe(data, "test"))
    differing = {step for step in before if before[step] != after[step]}
    assert differing == with_descendants(TINY, {("mix", "sft")})
    assert not any("midtrain" in name or "pretrain" in name for _, name in differing)


def test_the_order_of_a_mixs_sources_counts() -> None:
    """Of equal texts the one of the source listed first survives."""
    data = read_mapping(ROOT / "config/tiny.yaml")
    mix = data["mixes"]["pretrain_1t"]

    def id_of(order: str, reverse: bool) -> str:
        sources = dict(sorted(mix["sources"].items(), reverse=reverse))
        recipe = {
            **data,
            "mixes": {**data["mixes"], "pretrain_1t": {**mix, "order": order, "sources": sources}},
        }
        return recipe_id(validate_recipe(recipe, "test"), "mix", "pretrain_1t")

    assert id_of("listed", True) != id_of("listed", False)
    assert id_of("curriculum", True) != id_of("curriculum", False)


# --- things that must not matter ----------------------------------------------------------------------------


def shuffled(value: Any, generator: random.Random) -> Any:
    if isinstance(value, dict):
        items = list(value.items())
        generator.shuffle(items)
        return {key: shuffled(item, generator) for key, item in items}
    return value


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32))
def test_the_order_of_keys_in_the_file_does_not_matter(seed: int) -> None:
    """Where the order says what comes first (mixes and their sources, stages) it is kept."""
    data = read_mapping(ROOT / "config/tiny.yaml")
    generator = random.Random(seed)
    for section in ("mixes", "stages"):
        data[section] = {name: shuffled(item, generator) for name, item in data[section].items()}
    for name, mix in read_mapping(ROOT / "config/tiny.yaml")["mixes"].items():
        data["mixes"][name]["sources"] = mix["sources"]
    for section in ("model", "tokenizer", "sources", "stage_defaults"):
        data[section] = shuffled(data[section], generator)
    assert ids(validate_recipe(data, "test")) == ids(TINY)


def test_writing_a_default_out_changes_nothing(tmp_path: Path) -> None:
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text("stages: {sft: {optimizer: {adam_beta1: 0.9}}}\nmodel: {norm_epsilon: 1.0e-6}\n")
    assert ids(load_recipe([ROOT / "config/tiny.yaml", overlay])) == ids(TINY)


def test_the_hash_seed_and_the_process_do_not_matter() -> None:
    code = (
        "import json; from pathlib import Path\n"
        "from zgcm.config.load import load_recipe; from zgcm.identity import recipe_id, steps\n"
        "recipe = load_recipe([Path('config/zgcm-7b.yaml')])\n"
        "print(json.dumps([recipe_id(recipe, *step) for step in steps(recipe)]))"
    )
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = [sys.executable, "-c", code]
        output = subprocess.run(
            run, cwd=ROOT, env=environment, check=True, capture_output=True, text=True
        ).stdout
        assert json.loads(output) == list(ids(BIG).values())


# --- locks, imported tokenizers, messages -------------------------------------------------------------------


def locked_recipe(tmp_path: Path, lock: dict[str, Any], name: str = "a.lock") -> Recipe:
    path = tmp_path / name
    path.write_text(json.dumps(lock))
    data = read_mapping(ROOT / "config/tiny.yaml")
    shared = {"stage": "pretrain", "category": "code"}
    data["sources"]["demo_code"] = {"kind": "files", **shared, "lock": str(path)}
    return validate_recipe(data, "test")


def test_a_lock_counts_by_its_content_and_not_by_where_files_lie(tmp_path: Path) -> None:
    file = {"path": "/here/a.jsonl", "bytes": 5, "sha256": "ab"}
    first = locked_recipe(tmp_path, {"files": [file]})
    moved = locked_recipe(tmp_path, {"files": [{**file, "path": "/there/a.jsonl"}]}, "b.lock")
    edited = locked_recipe(tmp_path, {"files": [{**file, "sha256": "cd"}]}, "c.lock")
    unknown = locked_recipe(tmp_path, {"files": [{**file, "sha256": None}]}, "d.lock")
    renamed = locked_recipe(tmp_path, {"files": [{"path": "b", "bytes": 5, "sha256": None}]}, "e.lock")
    raw = [recipe_id(recipe, "raw", "demo_code") for recipe in (first, moved, edited, unknown, renamed)]
    assert raw[0] == raw[1]
    assert len(set(raw)) == 4
    assert source_shards(first, "demo_code") == ["00000"]


def test_an_imported_tokenizer_counts_by_content_not_by_path() -> None:
    def id_of(path: str, sha256: str | None) -> str:
        tokenizer = BIG.tokenizer.model_copy(update={"path": path, "sha256": sha256})
        return recipe_id(BIG.model_copy(update={"tokenizer": tokenizer}), "tokenizer")

    assert id_of("a", None) == id_of("b", None)
    assert id_of("a", "12") == id_of("b", "12") != id_of("a", "34")


def test_changed_keys_names_the_key_that_made_a_stage_stale() -> None:
    path = ("stages", "midtrain_64k", "optimizer", "lr")
    other = changed(TINY, path, TrainStage.model_fields["optimizer"])
    before, after = basis(TINY, "train", "midtrain_64k"), basis(other, "train", "midtrain_64k")
    assert changed_keys(before, after) == ["settings.optimizer.lr"]
    after = basis(other, "train", "midtrain_256k")
    assert changed_keys(basis(TINY, "train", "midtrain_256k"), after) == ["built_on.train:midtrain_64k"]
    assert changed_keys(before, before) == []


def test_a_run_is_named_by_recipe_and_inputs() -> None:
    one = run_id("abc", {"mix/00000": "1", "init": "2"})
    assert one == run_id("abc", {"init": "2", "mix/00000": "1"})
    assert len({one, run_id("abd", {"mix/00000": "1", "init": "2"}), run_id("abc", {"mix/00000": "3"})}) == 3


def test_ids_are_forgotten_with_their_recipe() -> None:
    """A new recipe at the same address must not inherit the ids of a dead one."""
    seen = set()
    for seed in range(50):
        seen.add(recipe_id(changed(TINY, ("stages", "sft", "seed"), None), "train", "sft"))
        other = TINY.model_copy(
            update={"model": TINY.model.model_copy(update={"num_layers": 6 + seed})},
        )
        seen.add(recipe_id(other, "train", "sft"))
        del other
    assert len(seen) == 51
