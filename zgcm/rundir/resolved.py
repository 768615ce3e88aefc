"""The recipe as one workflow run resolved it: all overlays merged, kept as one file that the verbs read.

The Snakefile calls `resolve` while it is parsed, also for a dry run and again in every cluster job. The
file is named by its content, so a running job never sees another recipe than the one it was started for.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from zgcm.config.load import merge_files, validate_recipe
from zgcm.config.places import locate
from zgcm.config.recipe import Recipe
from zgcm.io import write_bytes
from zgcm.missing import require_files


def resolve(
    config: dict[str, Any], checkout: Path, results: Path, files: Sequence[Path] = ()
) -> tuple[Recipe, Path]:
    """Validate merged configuration and keep it as `{results}/.recipes/{digest}.yaml`.

    `files`: what it was merged from, for messages. Returns the recipe and the file. Raises ZgcmError.
    """
    located = locate(config, checkout)
    lines = merge_files(list(files))[1]
    recipe = validate_recipe(located, ", ".join(map(str, files)) or "the merged configuration", lines)
    require_files(recipe)
    plain = json.loads(json.dumps(located))  # Snakemake's configuration holds its own kinds of mappings
    content = yaml.safe_dump(plain, sort_keys=False).encode()  # in order: "earlier mixes" depends on it
    path = results / ".recipes" / f"{hashlib.sha256(content).hexdigest()[:12]}.yaml"
    if not path.exists():
        write_bytes(path, content)
    return recipe, path
