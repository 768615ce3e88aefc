"""Read recipe files, merge overlays, validate, and say clearly what is wrong.

recipe = load_recipe([Path("config/tiny.yaml")])
"""

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from zgcm.config.explain import describe
from zgcm.config.recipe import Recipe, deep_merge
from zgcm.config.yamlfile import Lines, read_yaml
from zgcm.errors import ZgcmError


def load_recipe(paths: list[Path]) -> Recipe:
    """Load one recipe file and its overlays, later ones winning key by key. Raises ZgcmError."""
    merged: dict[str, Any] = {}
    lines: Lines = {}
    for path in paths:
        data, places = read_yaml(path)
        merged = deep_merge(merged, data)
        lines |= places
    return validate_recipe(merged, where=", ".join(map(str, paths)), lines=lines)


def read_mapping(path: Path) -> dict[str, Any]:
    """The plain data of one recipe file. Raises ZgcmError with line and column."""
    return read_yaml(path)[0]


def validate_recipe(data: dict[str, Any], where: str, lines: Lines | None = None) -> Recipe:
    """Validate plain data as a recipe. Raises ZgcmError listing every wrong key at once.

    `lines` says where each key stands in the files, so that messages can too.
    """
    try:
        return Recipe.model_validate(data)
    except ValidationError as error:
        found = [_origin(line, data) for item in error.errors() for line in describe(item)]
        details = [_with_line(line, lines or {}) for line in dict.fromkeys(found)]
        count = f"{len(details)} problems" if len(details) > 1 else "a problem"
        raise ZgcmError(
            f"The recipe has {count} (docs/recipe.md explains every key)",
            where=where,
            found="".join(f"\n  {line}" for line in details),
        ) from error


def _origin(line: str, data: dict[str, Any]) -> str:
    """Point to `stage_defaults` when the key at fault stands there and not in the stage itself."""
    path, separator, message = line.partition(": ")
    parts = path.split(".")
    if len(parts) < 3 or parts[0] != "stages" or not separator:
        return line
    stage = (data.get("stages") or {}).get(parts[1])
    kind = stage.get("kind") if isinstance(stage, dict) else None
    shared = (data.get("stage_defaults") or {}).get(kind)
    if _holds(stage, parts[2:]) or not _holds(shared, parts[2:]):
        return line
    return ": ".join((".".join(["stage_defaults", str(kind), *parts[2:]]), message))


def _holds(value: Any, parts: list[str]) -> bool:
    for part in parts:
        if not isinstance(value, dict) or part not in value:
            return False
        value = value[part]
    return True


def _with_line(line: str, lines: Lines) -> str:
    """Append the file and line of the key, or of the nearest enclosing key that stands in a file."""
    keys = tuple(int(part) if part.isdigit() else part for part in line.partition(": ")[0].split("."))
    for length in range(len(keys), 0, -1):
        if keys[:length] in lines:
            return f"{line} ({lines[keys[:length]]})"
    return line
