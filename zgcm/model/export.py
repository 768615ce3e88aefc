"""A finished stage as a Hugging Face directory in the published layout. `zgcm export STAGE`

    results/export/{stage}/  config.json  generation_config.json  model-*.safetensors  *.index.json
                             configuration_zgcm.py  modeling_zgcm.py  README.md  tokenizer files
                             manifest.json (last)

Weights of a training stage come from its Megatron checkpoint, those of an RL stage from the policy directory
that the stage kept. The directory is built beside its place and renamed into it whole. Same weights and
recipe, same bytes.
"""

import os
import shutil
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zgcm import identity
from zgcm.config.recipe import Recipe
from zgcm.config.rl import RLStage
from zgcm.config.stages import AdoptedStage, TrainStage
from zgcm.errors import ZgcmError
from zgcm.io import disk_full, fsync_directory, is_disk_full, read_json, write_json, write_text
from zgcm.layout import Layout
from zgcm.model import published
from zgcm.model.card import card, lineage
from zgcm.rundir.manifest import is_complete, verify_manifest, write_manifest
from zgcm.rundir.owner import owning
from zgcm.tokens.tokenizer import FILES as TOKENIZER_FILES
from zgcm.tokens.tokenizer import tokenizer_facts

if TYPE_CHECKING:
    from zgcm.model.weights import Named

MODEL_CODE = ("configuration_zgcm.py", "modeling_zgcm.py")
GENERATION = {"do_sample": True, "temperature": 1.0, "top_p": 1.0}
"""The sampling with which the published model is evaluated."""


def export_stage(recipe: Recipe, layout: Layout, stage: str) -> dict[str, Any]:
    """Export a finished stage; returns the manifest. Raises ZgcmError when something it needs is missing."""
    done = read_done(recipe, layout, stage)
    weights = weights_directory(layout, stage, done)
    tokenizer = tokenizer_facts(layout.tokenizer)
    facts = describe(recipe, layout, stage, done, tokenizer["vocab_size"])
    work = layout.root / "export" / f".{stage}"
    with owning(work):
        building = work / "files"
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir()
        try:
            write_weights(building, recipe, stage, weights, facts)
            write_files(building, recipe, layout, stage, facts, tokenizer["end_id"])
            publish(building, layout.export(stage), facts)
        except OSError as error:
            raise (disk_full(building) if is_disk_full(error) else error) from error
        finally:
            shutil.rmtree(building, ignore_errors=True)
    shutil.rmtree(work)
    return read_json(layout.export_manifest(stage))


def read_done(recipe: Recipe, layout: Layout, stage: str) -> dict[str, Any]:
    """The stage's `done`, checked against the recipe."""
    if stage not in recipe.stages:
        known = ", ".join(recipe.stages)
        raise ZgcmError("No such stage in the recipe", where="stages", found=stage, expected=known)
    path, verb = layout.done(stage), command(recipe, stage)
    if not path.is_file():
        raise ZgcmError(f"Stage {stage} is not finished", where=str(path), found="no such file", hint=verb)
    done = read_json(path)
    basis = identity.basis(recipe, identity.stage_step(recipe, stage), stage)
    if done["recipe_id"] != identity.digest(basis):
        changed = ", ".join(identity.changed_keys(done["basis"], basis))
        raise ZgcmError(
            f"Stage {stage} was made with another recipe",
            where=str(path),
            found=f"changed: {changed}",
            hint=verb,
        )
    return done


def command(recipe: Recipe, stage: str) -> str:
    return f"run: zgcm {identity.stage_step(recipe, stage)} {stage}"


def weights_directory(layout: Layout, stage: str, done: dict[str, Any]) -> Path:
    """The verified checkpoint or policy directory of a finished stage."""
    kind = "policy" if "policy" in done else "checkpoint"
    directory = layout.root / done[kind]
    if not is_complete(directory):
        state = "there, but without a manifest" if directory.is_dir() else "deleted"
        raise ZgcmError(
            f"Stage {stage} is finished, but its {kind}, which the export reads, is gone",
            where=str(directory),
            found=f"{state}; needed are its files and manifest.json",
            expected=f"weights with digest {done['weights_digest']}",
            hint=f"put a copy of the directory back; or, to compute it again: rm {layout.done(stage)} and "
            f"run snakemake {layout.done(stage)}, which continues from the last whole checkpoint below "
            f"{layout.runs(stage)}, or from the start of the stage if there is none",
        )
    manifest = verify_manifest(directory)
    # A checkpoint's manifest states the digest of its weights beside that of its files; a policy has one.
    digest = manifest.get("weights_digest", manifest["digest"])
    if digest != done["weights_digest"]:
        raise ZgcmError(
            f"The {kind} is not the one with which stage {stage} ended",
            where=str(directory),
            found=f"weights with digest {digest}",
            expected=done["weights_digest"],
        )
    return directory


def describe(
    recipe: Recipe, layout: Layout, stage: str, done: dict[str, Any], vocabulary: int
) -> dict[str, Any]:
    """What is exported, for the manifest and the model card. Deterministic."""
    rows = published.padded_vocabulary(recipe.model, vocabulary)
    return {
        "stage": stage,
        "recipe_id": identity.recipe_id(recipe, "export", stage),
        "run_id": done["run_id"],
        "weights_digest": done["weights_digest"],
        "parameters": published.parameters(recipe.model, rows),
        "vocabulary": vocabulary,
        "rows": rows,
        **training_facts(recipe, layout, stage),
    }


def training_facts(recipe: Recipe, layout: Layout, stage: str) -> dict[str, Any]:
    """dtype, rotary_base and context of the weights, by the stages that led to them; of an adopted one, what
    its own files say, and its digest. Raises ZgcmError when nothing says which rotary base they have."""
    facts: dict[str, Any] = {"dtype": "bfloat16", "rotary_base": None, "context": 0}
    for name in lineage(recipe, stage):
        section = recipe.stages[name]
        if isinstance(section, TrainStage):
            facts |= {"dtype": "bfloat16" if section.bf16 else "float32", "rotary_base": section.rotary_base}
            facts["context"] = max(facts["context"], section.seq_length)
        elif isinstance(section, AdoptedStage):
            done = read_json(layout.done(name), made_by=f"zgcm adopt {name}")
            known = {key: done["adopted"][key] for key in ("dtype", "rotary_base", "context")}
            facts |= {**known, "context": known["context"] or 0, "adopted": {name: done["weights_digest"]}}
    if facts["rotary_base"] is None or not facts["context"]:
        raise ZgcmError(
            "Nothing says for which rotary base and context these weights were trained",
            where=f"stages.{stage}",
            found="adopted weights whose files do not tell",
            expected="a stage that trains them further",
            hint="export a stage that starts from them",
        )
    return facts


def write_weights(building: Path, recipe: Recipe, stage: str, weights: Path, facts: dict[str, Any]) -> None:
    import torch

    from zgcm.model.convert import read_megatron
    from zgcm.model.weights import read_safetensors, write_safetensors

    shapes = published.shapes(recipe.model, facts["rows"])
    named: Named
    if not isinstance(recipe.stages[stage], RLStage):
        named = read_megatron(weights, recipe.model, facts["vocabulary"], facts["rows"])
    else:
        named = read_safetensors(weights, shapes)
    write_safetensors(building, shapes, named, getattr(torch, facts["dtype"]))


def write_files(
    building: Path, recipe: Recipe, layout: Layout, stage: str, facts: dict[str, Any], end_of_text: int
) -> None:
    """Everything but the weights."""
    config = published.config(
        recipe.model,
        vocabulary=facts["rows"],
        rotary_base=facts["rotary_base"],
        context=facts["context"],
        end_of_text=end_of_text,
        dtype=facts["dtype"],
    )
    write_json(building / "config.json", config)
    ends = {"eos_token_id": end_of_text, "pad_token_id": end_of_text}
    write_json(building / "generation_config.json", GENERATION | ends)
    write_text(building / "README.md", card(recipe, stage, facts))
    for name in MODEL_CODE:
        write_text(building / name, files("zgcm.model.hf").joinpath(name).read_text())
    for name in TOKENIZER_FILES:
        shutil.copyfile(layout.tokenizer / name, building / name)


def publish(building: Path, final: Path, facts: dict[str, Any]) -> None:
    """Put the complete directory in its place; what stood there goes, its manifest first."""
    for path in building.iterdir():
        path.chmod(0o644)  # safetensors writes files that only their owner reads
        with path.open("rb") as stream:
            os.fsync(stream.fileno())
    write_manifest(building, **facts)
    if final.exists():
        (final / "manifest.json").unlink(missing_ok=True)
        shutil.rmtree(final)
    building.rename(final)
    fsync_directory(final.parent)
