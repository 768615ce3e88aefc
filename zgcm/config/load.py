"""Read recipe files, merge overlays, validate, and say clearly what is wrong.

recipe = load_recipe([Path("config/tiny.yaml")])
"""

import difflib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from zgcm.config.crosscheck import KEEP_CONTRADICTIONS, problems
from zgcm.config.explain import describe
from zgcm.config.places import locate
from zgcm.config.recipe import Recipe, deep_merge
from zgcm.config.yamlfile import Lines, read_yaml
from zgcm.errors import ZgcmError


def load_recipe(paths: list[Path], checkout: Path | None = None) -> Recipe:
    """Load one recipe file and its overlays, later ones winning key by key. `checkout` is where locks and
    evaluation files lie when that is not the working directory. Raises ZgcmError."""
    merged, lines = merge_files(paths, checkout)
    return validate_recipe(merged, where=", ".join(map(str, paths)), lines=lines)


def load_with_contradictions(paths: list[Path], checkout: Path | None = None) -> tuple[Recipe, list[str]]:
    """A recipe whose keys are right, and every contradiction between them, with file and line.

    For checks that list these beside problems of another kind. Raises ZgcmError where a key is wrong or a
    name unknown: such a recipe says nothing definite.
    """
    merged, lines = merge_files(paths, checkout)
    where = ", ".join(map(str, paths))
    recipe = validate_recipe(merged, where, lines, context={KEEP_CONTRADICTIONS: True})
    return recipe, [_with_line(_origin(line, merged), lines) for line in problems(recipe)]


def merge_files(paths: list[Path], checkout: Path | None = None) -> tuple[dict[str, Any], Lines]:
    """The data of recipe files, later ones winning, and where each key stands."""
    merged: dict[str, Any] = {}
    lines: Lines = {}
    for path in paths:
        data, places = read_yaml(path)
        merged = deep_merge(merged, data)
        lines |= places
    return (merged if checkout is None else locate(merged, checkout)), lines


def read_mapping(path: Path) -> dict[str, Any]:
    """The plain data of one recipe file. Raises ZgcmError with line and column."""
    return read_yaml(path)[0]


def validate_recipe(
    data: dict[str, Any], where: str, lines: Lines | None = None, context: dict[str, Any] | None = None
) -> Recipe:
    """Validate plain data as a recipe. Raises ZgcmError listing every wrong key at once.

    `lines` says where each key stands in the files, so that messages can too.
    """
    try:
        return Recipe.model_validate(data, context=context)
    except ValidationError as error:
        found = [_origin(line, data) for item in error.errors() for line in describe(item)]
        details = [_with_line(_guessed(line, data), lines or {}) for line in dict.fromkeys(found)]
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
    kind = _below(data, ["stages", parts[1], "kind"])
    stands_in_stage = _below(data, parts) is not ABSENT
    if stands_in_stage or _below(data, ["stage_defaults", kind, *parts[2:]]) is ABSENT:
        return line
    return ": ".join((".".join(["stage_defaults", str(kind), *parts[2:]]), message))


def _guessed(line: str, data: dict[str, Any]) -> str:
    """Name the like-named section where one lacks what each has: an overlay may have misspelt it."""
    parts = line.partition(": ")[0].split(".")
    if len(parts) != 2 or parts[0] not in ("sources", "mixes", "stages"):
        return line
    if not any(said in line for said in ("`kind` is required", "give either")):
        return line
    others = [name for name in data[parts[0]] if isinstance(name, str) and name != parts[1]]
    near = difflib.get_close_matches(parts[1], others, n=1, cutoff=0.85)
    return f"{line}; did you mean {near[0]!r}?" if near else line


ABSENT = object()


def _below(value: Any, keys: list[Any]) -> Any:
    """The value under nested keys, or ABSENT; the data is not validated, so anything may stand there."""
    for key in keys:
        if not isinstance(value, dict) or not isinstance(key, str) or key not in value:
            return ABSENT
        value = value[key]
    return value


def _with_line(line: str, lines: Lines) -> str:
    """Append the file and line of the key, or of the nearest enclosing key that stands in a file."""
    keys = tuple(int(part) if part.isdigit() else part for part in line.partition(": ")[0].split("."))
    for length in range(len(keys), 0, -1):
        if keys[:length] in lines:
            return f"{line} ({lines[keys[:length]]})"
    return line
