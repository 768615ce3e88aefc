"""What decides a result: `recipe_id` from the recipe alone, `run_id` with the digests of its inputs too.

`recipe_id` is Snakemake's `params:` value: when it changes, the step and everything built on it is stale.
Execution keys (zgcm.config.base.execution) never enter it.
"""

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from zgcm.config.base import semantic
from zgcm.config.recipe import Recipe
from zgcm.config.stages import TrainStage
from zgcm.io import canonical_json, sha256_file

# Raise a step's number when a change of code changes its results; everything after it becomes stale.
VERSIONS = {
    "raw": 1,
    "clean": 1,
    "fingerprint": 1,
    "tokenizer": 1,
    "index": 1,
    "mix": 1,
    "train": 1,
    "export": 1,
    "rl": 1,
}


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON, first 12 digits."""
    return hashlib.sha256(canonical_json(value)).hexdigest()[:12]


def basis(recipe: Recipe, step: str, name: str = "") -> dict[str, Any]:
    """Everything that decides `recipe_id(step, name)`: the step's own settings and the ids it builds on."""
    settings, parents = _SETTINGS[step](recipe, name)
    built_on = {f"{parent}:{of}" if of else parent: recipe_id(recipe, parent, of) for parent, of in parents}
    return {"step": step, "version": VERSIONS[step], "settings": settings, "built_on": built_on}


def recipe_id(recipe: Recipe, step: str, name: str = "") -> str:
    """Identity of a step's result as far as the recipe decides it; needs no data."""
    return digest(basis(recipe, step, name))


def run_id(recipe_id: str, inputs: dict[str, str]) -> str:
    """Names a run directory: the recipe's part plus the digests that the inputs' manifests state."""
    return digest({"recipe_id": recipe_id, "inputs": inputs})


def changed_keys(before: Any, after: Any, path: str = "") -> list[str]:
    """Paths of the keys in which two bases differ, for messages that say why something is stale."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            key
            for name in sorted(before.keys() | after.keys())
            for key in changed_keys(before.get(name), after.get(name), f"{path}.{name}" if path else name)
        ]
    return [] if before == after else [path]


Parents = list[tuple[str, str]]


def _raw(recipe: Recipe, name: str) -> tuple[Any, Parents]:
    source = recipe.sources[name]
    keys = {
        "kind",
        "content",
        "shards",
        "documents",
        "seed",
        "settings",
        "files",
        "repo",
        "revision",
        "subset",
    }
    settings = {key: value for key, value in semantic(source).items() if key in keys}
    lock = getattr(source, "lock", None)
    if lock and Path(lock).exists():
        settings["lock_sha256"] = _file_digest(lock, Path(lock).stat().st_mtime_ns)
    return settings, []


@cache
def _file_digest(path: str, _mtime_ns: int) -> str:
    return sha256_file(Path(path))


def _clean(recipe: Recipe, name: str) -> tuple[Any, Parents]:
    keys = {"stage", "category", "dataset", "id_field", "text_fields", "field_map", "defaults", "cleaning"}
    settings = {key: value for key, value in semantic(recipe.sources[name]).items() if key in keys}
    return {"name": name, **settings}, [("raw", name)]


def _fingerprint(recipe: Recipe, name: str) -> tuple[Any, Parents]:
    return {}, [("clean", name)]


def _tokenizer(recipe: Recipe, name: str) -> tuple[Any, Parents]:
    sources = recipe.tokenizer.sources if recipe.tokenizer.kind == "train" else []
    return semantic(recipe.tokenizer), [("clean", source) for source in sources]


def _index(recipe: Recipe, name: str) -> tuple[Any, Parents]:
    return {}, [("clean", name), ("tokenizer", "")]


def _mix(recipe: Recipe, name: str) -> tuple[Any, Parents]:
    mix = recipe.mixes[name]
    include = {source: list(recipe.sources[source].include) for source in mix.sources}
    parents: Parents = []
    for source in mix.sources:
        parents += [("fingerprint", source), ("index", source)]
    return {**semantic(mix), "include": include}, parents + [("mix", other) for other in mix.exclude]


def _train(recipe: Recipe, name: str) -> tuple[Any, Parents]:
    stage = recipe.stages[name]
    assert isinstance(stage, TrainStage)
    parents: Parents = [("tokenizer", "")] + [("mix", mix) for mix in stage.mix]
    if stage.init is not None:
        parents.append(("train", stage.init))
    return {"model": semantic(recipe.model), **semantic(stage)}, parents


def _export(recipe: Recipe, name: str) -> tuple[Any, Parents]:
    step = "train" if isinstance(recipe.stages[name], TrainStage) else "rl"
    return {"model": semantic(recipe.model)}, [(step, name), ("tokenizer", "")]


def _rl(recipe: Recipe, name: str) -> tuple[Any, Parents]:
    stage = recipe.stages[name]
    return semantic(stage), [("export", str(stage.init))]


_SETTINGS = {
    "raw": _raw,
    "clean": _clean,
    "fingerprint": _fingerprint,
    "tokenizer": _tokenizer,
    "index": _index,
    "mix": _mix,
    "train": _train,
    "export": _export,
    "rl": _rl,
}
