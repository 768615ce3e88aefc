"""`zgcm adopt STAGE`: weights of yours as if a stage of the recipe had trained them.

    results/{stage}/runs/{run_id}/checkpoints/{release or iter_0001000}/   torch_dist files, manifest.json
    results/{stage}/runs/{run_id}/run.json                                 where they came from, file by file
    results/{stage}/done                                                   what they are: no path, no time

Hugging Face weights are converted, Megatron's files are linked. The run id holds the digest of the tensors,
so the same weights from another place are the same run.
"""

import shutil
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from zgcm import identity
from zgcm.config.recipe import Recipe
from zgcm.config.stages import AdoptedStage
from zgcm.errors import ZgcmError
from zgcm.io import disk_full, fsync_directory, is_disk_full, sha256_file, write_json
from zgcm.layout import Layout
from zgcm.model.described import differences, read_config, rotary_base
from zgcm.model.megatron_files import RELEASE, Facts, check_files, find_checkpoint, read_facts, read_index
from zgcm.rundir import manifest, owner
from zgcm.rundir.provenance import circumstances
from zgcm.tokens.agreement import disagreements
from zgcm.tokens.tokenizer import tokenizer_facts
from zgcm.train.continuation import continuation_problems

Files = dict[str, dict[str, Any]]
PACKAGES = ("torch", "safetensors", "megatron-core")


def adopt_weights(recipe: Recipe, layout: Layout, name: str) -> dict[str, Any]:
    """Check, convert or link, and write `done`; returns it. Raises ZgcmError listing what does not fit."""
    stage, begun = adopted_stage(recipe, name), circumstances(PACKAGES)
    source = Path(stage.path)
    if not source.is_dir():
        raise ZgcmError(
            f"The weights to adopt as {name} are not there",
            where=str(source.absolute()),
            found="no such directory",
            expected=f"a directory in the format {stage.format}",
            hint=f"bring them, or correct stages.{name}.path (relative paths lie below --directory)",
        )
    tokenizer = tokenizer_facts(layout.tokenizer)
    work = layout.stage(name) / ".adopting"
    with owner.owning(work):
        building = work / "checkpoint"
        shutil.rmtree(building, ignore_errors=True)
        try:
            take = convert_published if stage.format == "huggingface" else link_megatron
            checkpoint, facts, files = take(recipe, layout, name, source, building)
            done = describe(recipe, name, checkpoint, facts, tokenizer["digest"])
            check_consumers(recipe, name, done)
            run = settle(layout, name, checkpoint, done)
        except OSError as error:
            raise (disk_full(building) if is_disk_full(error) else error) from error
        finally:
            shutil.rmtree(building, ignore_errors=True)
        origin = {"path": str(source.resolve()), "format": stage.format, "files": files}
        write_json(run / "run.json", {"attempts": [{**begun, "ended": time.time(), "adopted": origin}]})
        write_json(layout.done(name), done)
    shutil.rmtree(work)
    return done


def adopted_stage(recipe: Recipe, name: str) -> AdoptedStage:
    return recipe.stage_of(AdoptedStage, name, "the recipe adopts")


def convert_published(
    recipe: Recipe, layout: Layout, name: str, source: Path, building: Path
) -> tuple[Path, Facts, Files]:
    """A Hugging Face directory as a Megatron checkpoint of weights alone; with it its facts and the source's
    files."""
    from zgcm.model.convert import write_megatron
    from zgcm.model.published import shapes
    from zgcm.model.weights import open_weights

    config, vocabulary = read_config(source), recipe.tokenizer.vocab_size
    refuse(name, source / "config.json", differences(config, recipe.model, vocabulary), "recipe's model")
    check_tokenizer(layout, name, source)
    verify_own(source)
    weights = open_weights(source, shapes(recipe.model, config["vocab_size"]))
    files = listing(source, ["config.json", *sorted(set(weights.files.values()))])
    write_megatron(source, building, recipe.model, vocabulary)
    context, kind = config.get("max_position_embeddings"), str(weights.dtype).removeprefix("torch.")
    return building / RELEASE, Facts(0, None, False, rotary_base(config), context, kind, vocabulary), files


def link_megatron(
    recipe: Recipe, layout: Layout, name: str, source: Path, building: Path
) -> tuple[Path, Facts, Files]:
    """Links to the files of a Megatron checkpoint; nothing is copied. Returns as `convert_published`."""
    from zgcm.model.convert import check_index
    from zgcm.model.published import tensors

    found = find_checkpoint(source)
    verify_own(found)
    check_files(found)
    index = read_index(found)
    check_index(found, index, list(tensors(recipe.model, recipe.tokenizer.vocab_size)))
    facts = read_facts(found)
    checkpoint = building / (found.name if found.name == RELEASE else f"iter_{facts.iteration:07d}")
    checkpoint.mkdir(parents=True)
    names = sorted(path.name for path in found.iterdir() if path.is_file() and path.name != manifest.NAME)
    for file in names:
        (checkpoint / file).symlink_to((found / file).resolve())
    return checkpoint, facts, listing(found, names)


def refuse(name: str, where: Path, problems: list[str], what: str) -> None:
    if problems:
        raise ZgcmError(
            f"The weights to adopt as {name} do not fit the {what}",
            where=str(where),
            found="".join(f"\n  {problem}" for problem in problems) + "\n",
            hint="correct the recipe, or adopt other weights",
        )


def check_tokenizer(layout: Layout, name: str, source: Path) -> None:
    """Weights that come with a tokenizer must mean the same by the same ids."""
    theirs = source / "tokenizer.json"
    if not theirs.is_file():
        return
    if odd := disagreements(theirs, layout.tokenizer / "tokenizer.json"):
        raise ZgcmError(
            f"The weights to adopt as {name} were trained with another tokenizer than the recipe's",
            where=str(theirs),
            found="; ".join(odd),
            expected=f"the ids of {layout.tokenizer / 'tokenizer.json'}",
            hint=f"take the weights' own: tokenizer: {{kind: import, path: {source}, ...}}",
        )


def verify_own(directory: Path) -> None:
    """A directory that zgcm wrote says what its files must be."""
    if manifest.is_complete(directory):
        manifest.verify_manifest(directory)


def listing(directory: Path, names: list[str]) -> Files:
    return {
        name: {"bytes": (directory / name).stat().st_size, "sha256": sha256_file(directory / name)}
        for name in names
    }


def describe(recipe: Recipe, name: str, checkpoint: Path, facts: Facts, tokenizer: str) -> dict[str, Any]:
    """The content of `done`; deterministic. Raises ZgcmError when the digest is not the pinned one."""
    from zgcm.model.told import reading
    from zgcm.train.publish import weights_digest

    with reading(checkpoint.resolve()):
        digest = weights_digest(checkpoint)
    pinned = adopted_stage(recipe, name).weights_digest
    if pinned not in (None, digest):
        raise ZgcmError(
            f"The weights to adopt as {name} are not those that the recipe names",
            where=f"stages.{name}.weights_digest",
            found=digest,
            expected=str(pinned),
            hint="use those weights, or change the digest deliberately",
        )
    basis, inputs = identity.basis(recipe, "adopt", name), {"weights": digest, "tokenizer": tokenizer}
    recipe_id = identity.digest(basis)
    run_id = identity.run_id(recipe_id, inputs)
    return {
        "stage": name,
        "kind": "adopted",
        "recipe_id": recipe_id,
        "run_id": run_id,
        "basis": basis,
        "inputs": inputs,
        "iteration": facts.iteration,
        "consumed_samples": facts.consumed_samples or 0,
        "checkpoint": f"{name}/runs/{run_id}/checkpoints/{checkpoint.name}",
        "weights_digest": digest,
        "adopted": asdict(facts),
    }


def check_consumers(recipe: Recipe, name: str, done: dict[str, Any]) -> None:
    """What the stages that start from these weights need of them. Raises ZgcmError, and tells what is odd."""
    problems = []
    for other, stage in recipe.train_stages().items():
        if stage.init != name:
            continue
        problems += continuation_problems(stage, other, done)
        base = done["adopted"]["rotary_base"]
        if base not in (None, stage.rotary_base):
            print(
                f"zgcm: note: {name} was trained with a rotary base of {base:,}, {other} goes on with "
                f"{stage.rotary_base:,} (stages.{other}.rotary_base)",
                file=sys.stderr,
            )
    refuse(name, Path(done["checkpoint"]), problems, "stages that start from them")


def settle(layout: Layout, name: str, checkpoint: Path, done: dict[str, Any]) -> Path:
    """Write the manifest and move the checkpoint to its place, unless it is there whole; returns the run's
    directory."""
    final = layout.root / done["checkpoint"]
    facts = {key: done[key] for key in ("iteration", "consumed_samples", "weights_digest")}
    manifest.write_manifest(checkpoint, **facts)
    final.parent.mkdir(parents=True, exist_ok=True)
    if manifest.is_complete(final):
        try:
            manifest.verify_manifest(final)
            return final.parent.parent  # the same weights, perhaps in use
        except ZgcmError as error:
            print(f"zgcm: {error.paragraph()} It is made anew.", file=sys.stderr)
    if final.exists():
        shutil.rmtree(final)
    checkpoint.rename(final)
    fsync_directory(final.parent)
    return final.parent.parent
