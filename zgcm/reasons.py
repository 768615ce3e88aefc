"""Why a job of a dry run would run, in words: `changed: optimizer.lr`, `missing output`, `input made anew`.

Snakemake gives its reason as one sentence, without a structured form; here it is read part by part. It knows
of changed settings only that the recipe_id is another one. Which keys changed, a stage's `done` tells, and
for other steps the recipes that earlier runs left in results/.recipes: the one that gives the old id is the
one that the old result was made with.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from zgcm import identity
from zgcm.config.load import load_recipe
from zgcm.config.profiles import profile_file
from zgcm.config.recipe import Recipe
from zgcm.errors import ZgcmError
from zgcm.io import read_json
from zgcm.layout import Layout

SHOWN_KEYS = 4
REMEMBERED = 10
"""Recipes of earlier runs that are looked through, newest first; each takes some 50 ms."""
STEPS_OF_SOURCES = {name: name for name in ("raw", "clean", "fingerprint", "minhash", "index")}
STEPS_OF_SOURCES["contamination"] = "decontaminate"
STEPS_OF_STAGES = ("export", "pass_rates", "difficulty")
"""Beside the one that makes the stage's `done`."""


def step_of(recipe: Recipe, rule: str, wildcards: dict[str, str]) -> tuple[str, str] | None:
    """The (step, name) of `zgcm.identity` that a rule makes; None of rules without one."""
    if rule in STEPS_OF_SOURCES:
        return STEPS_OF_SOURCES[rule], wildcards["source"]
    if rule == "tokenizer":
        return "tokenizer", ""
    if "stage" in wildcards:
        name = wildcards["stage"]
        return rule if rule in STEPS_OF_STAGES else identity.stage_step(recipe, name), name
    mix = wildcards.get("mix") or rule.removeprefix("mix_")
    return ("mix", mix) if mix in recipe.mixes else None


def in_words(reason: str, missing: bool, changed: list[str] | None, profiles: Sequence[str] = ()) -> str:
    """Of one job. `missing`: an output is not there. `changed`: keys of the recipe that differ from the ones
    its result was made with; None where that is not known. `profiles`: those edited since then."""
    said = ["missing output"] if missing else []
    if "Forced execution" in reason:
        said.append("forced")
    if "Incomplete output files" in reason and not missing:
        said.append("its last run was cut off")
    if own := [key for key in changed or [] if not key.startswith("built_on.")]:
        said.append(of_keys(own))
    elif "Params have changed" in reason:
        edited = f"changed: profile {', '.join(profiles)}" if profiles else ""
        unknown = edited or "another recipe or version of zgcm than it was made with"
        said.append(of_keys(changed) if changed else unknown)
    if files := files_after(reason, "Updated input files: "):
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        said.append(f"input changed: {files[0]}{more}")
    if "Set of input files has changed" in reason:
        said.append("other input files than before")
    if "Software environment definition has changed" in reason:
        said.append("another environment")
    if said:
        return "; ".join(said)
    return "input made anew" if "Input files updated by another job" in reason else reason


def edited_profiles(recipe: Recipe, step: str, name: str, outputs: Sequence[str]) -> list[str]:
    """Cleaning profiles below a step whose files were written after its outputs: that is another identity
    too, of which the recipe shows nothing."""
    times = [Path(file).stat().st_mtime for file in outputs if Path(file).exists()]
    if step == "raw" or not times:
        return []
    below = list(recipe.sources)
    if step == "mix":
        below = list(recipe.mixes[name].sources)
    elif step in STEPS_OF_SOURCES.values():
        below = [name]
    named = dict.fromkeys(profile for source in below if (profile := recipe.sources[source].profile))
    return [profile for profile in named if profile_file(profile)[0].stat().st_mtime > min(times)]


def parted(keys: list[str]) -> tuple[list[str], list[str]]:
    """Changed keys of two bases: those of the step itself, and the steps it is built on."""
    own = [key.removeprefix("settings.") for key in keys if not key.startswith("built_on.")]
    return own, [key.removeprefix("built_on.") for key in keys if key.startswith("built_on.")]


def of_keys(keys: list[str]) -> str:
    own, parents = parted(keys)
    said = []
    if own:
        more = f" and {len(own) - SHOWN_KEYS} more" if len(own) > SHOWN_KEYS else ""
        said.append(f"changed: {', '.join(own[:SHOWN_KEYS])}{more}")
    if parents:
        said.append(f"built on {', '.join(parents)}, changed since")
    return "; ".join(said)


def files_after(reason: str, heading: str) -> list[str]:
    """The files that Snakemake lists behind a heading, in alphabetical order (its own varies)."""
    _, found, rest = reason.partition(heading)
    return sorted(rest.partition("; ")[0].split(", ")) if found else []


def old_ids(reason: str) -> set[str]:
    """The recipe_ids that the outputs were made with."""
    return set(re.findall(r"'([0-9a-f]{12})'", reason.partition(" before: ")[2].partition(" now: ")[0]))


def changed_keys(
    recipe: Recipe, step: str, name: str, before: set[str], layout: Layout, remembered: list[Recipe]
) -> list[str] | None:
    """Keys in which the step's basis differs from the one its result was made with, whose id is in `before`.

    None when neither a `done` nor a remembered recipe tells (a number of zgcm.versions was raised, or the
    recipe is forgotten).
    """
    if step in ("train", "rl", "adopt") and (done := layout.done(name)).is_file():
        return identity.changed_keys(read_json(done)["basis"], identity.basis(recipe, step, name))
    for other in remembered if before else []:
        try:
            known = identity.recipe_id(other, step, name) in before
        except KeyError:  # that recipe had no such source, mix or stage
            continue
        if known:
            then, now = identity.basis(other, step, name), identity.basis(recipe, step, name)
            return identity.changed_keys(then, now)
    return None


def remembered_recipes(directory: Path) -> list[Recipe]:
    """Recipes that earlier runs and dry runs left in results/.recipes, newest first. One that this version of
    zgcm does not understand gave other ids anyhow."""
    files = sorted(directory.glob("*.yaml"), key=lambda path: path.stat().st_mtime, reverse=True)
    return [recipe for path in files[:REMEMBERED] if (recipe := _load(path)) is not None]


def _load(path: Path) -> Recipe | None:
    try:
        return load_recipe([path])
    except ZgcmError:
        return None
