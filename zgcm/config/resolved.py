"""The recipe as one workflow run resolved it: all overlays merged, kept as one file that the verbs read.

The Snakefile calls `resolve` while it is parsed, also for a dry run and again in every cluster job. The
file is named by its content, so a running job never sees another recipe than the one it was started for.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import yaml

from zgcm.config.load import validate_recipe
from zgcm.config.places import locate
from zgcm.config.recipe import Recipe
from zgcm.errors import ZgcmError
from zgcm.io import write_bytes

SHOWN_MISSING = 5


def resolve(config: dict[str, Any], checkout: Path, results: Path) -> tuple[Recipe, Path]:
    """Validate merged configuration and keep it as `{results}/.recipes/{digest}.yaml`.

    Returns the recipe and the file. Raises ZgcmError.
    """
    located = locate(config, checkout)
    recipe = validate_recipe(located, where="the merged configuration")
    require_files(recipe)
    plain = json.loads(json.dumps(located))  # Snakemake's configuration holds its own kinds of mappings
    content = yaml.safe_dump(plain, sort_keys=False).encode()  # in order: "earlier mixes" depends on it
    path = results / ".recipes" / f"{hashlib.sha256(content).hexdigest()[:12]}.yaml"
    if not path.exists():
        write_bytes(path, content)
    return recipe, path


def require_files(recipe: Recipe) -> None:
    """Raises ZgcmError naming every file of yours that a source or mix lists and that is not there."""
    listed = [
        (f"sources.{name}.files", file)
        for name, source in recipe.sources.items()
        if source.kind == "files"
        for file in source.files
    ] + [
        (f"mixes.{name}.decontaminate.against", file)
        for name, mix in recipe.mixes.items()
        if mix.decontaminate is not None
        for file in mix.decontaminate.against
    ]
    missing = [f"{key}: {Path(file).absolute()}" for key, file in listed if not Path(file).exists()]
    if missing:
        more = f", and {len(missing) - SHOWN_MISSING} more" if len(missing) > SHOWN_MISSING else ""
        raise ZgcmError(
            "Files that the recipe lists are not there", found="; ".join(missing[:SHOWN_MISSING]) + more,
            hint="`files` are looked for below --directory; correct the paths, or bring the files",
        )  # fmt: skip
