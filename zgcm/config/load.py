"""Read recipe files, merge overlays, validate, and say clearly what is wrong.

recipe = load_recipe([Path("config/tiny.yaml")])
"""

import difflib
import types
import typing
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from zgcm.config.recipe import Recipe, deep_merge
from zgcm.errors import ZgcmError


def load_recipe(paths: list[Path]) -> Recipe:
    """Load one recipe file and its overlays, later ones winning key by key. Raises ZgcmError."""
    merged: dict[str, Any] = {}
    for path in paths:
        merged = deep_merge(merged, read_mapping(path))
    return validate_recipe(merged, where=", ".join(map(str, paths)))


def read_mapping(path: Path) -> dict[str, Any]:
    """Parse YAML (JSON is YAML). Raises ZgcmError with line and column."""
    try:
        data = yaml.safe_load(path.read_text())
    except FileNotFoundError as error:
        raise ZgcmError(
            "No such recipe", where=str(path), hint="give --recipe, for instance config/tiny.yaml"
        ) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise ZgcmError("Not valid YAML", where=where, found=str(error.problem)) from error
    if not isinstance(data, dict):
        raise ZgcmError("A recipe is a mapping of keys", where=str(path), found=type(data).__name__)
    return data


def validate_recipe(data: dict[str, Any], where: str) -> Recipe:
    """Validate plain data as a recipe. Raises ZgcmError listing every wrong key at once."""
    try:
        return Recipe.model_validate(data)
    except ValidationError as error:
        details = [describe(item) for item in error.errors()]
        count = f"{len(details)} problems" if len(details) > 1 else "a problem"
        raise ZgcmError(
            f"The recipe has {count}:\n  " + "\n  ".join(details) + "\n",
            where=where,
            hint="correct the keys named above; docs/recipe.md lists every key",
        ) from error


def describe(error: Any) -> str:
    """One line for one pydantic error: the key's path, what was found, what is allowed, the nearest key."""
    section, path = follow(error["loc"])
    found = error["input"]
    if error["type"] == "extra_forbidden":
        key, known = str(error["loc"][-1]), sorted(section.model_fields) if section else []
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
        guess = f"did you mean {near[0]!r}? " if near else ""
        return f"{path}: unknown key (found {found!r}); {guess}allowed here: {', '.join(known)}"
    if error["type"] == "missing":
        return f"{path}: this key is required"
    if error["type"] == "union_tag_invalid":
        context = error["ctx"]
        return f"{path}.kind: found {context['tag']!r}; allowed: {context['expected_tags']}"
    if error["type"] == "union_tag_not_found":
        return f"{path}.kind: this key is required"
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "value_error":
        return f"{path}: {message}" if path else message
    near = []
    if error["type"] == "literal_error" and isinstance(found, str):
        options = [part.strip("' ") for part in error["ctx"]["expected"].replace(" or ", ", ").split(", ")]
        near = difflib.get_close_matches(found, options, n=1, cutoff=0.5)
    guess = f"; did you mean {near[0]!r}?" if near else ""
    return f"{path}: {message[0].lower()}{message[1:]}; found {found!r}{guess}"


def follow(loc: tuple[int | str, ...]) -> tuple[type[BaseModel] | None, str]:
    """The section that holds the last part of a location, and the location as the user wrote it.

    pydantic puts the tag of a discriminated union into the location; the user's file has no such level.
    """
    kind: Any = Recipe
    section: type[BaseModel] | None = Recipe
    path: list[str] = []
    for part in loc:
        options = variants(kind)
        tagged = [option for option in options if part in tags(option)]
        if len(options) > 1 and tagged:
            kind = section = tagged[0]
            continue
        path.append(str(part))
        kind = options[0] if options else None
        section = kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None
        if section is not None:
            field = section.model_fields.get(str(part))
            kind = field.annotation if field else None
        elif typing.get_origin(kind) in (dict, list):
            kind = typing.get_args(kind)[-1]
        else:
            kind = None
    return section, ".".join(path)


def variants(kind: Any) -> list[Any]:
    """The members of a (possibly annotated) union, None left out; a plain type is its own only member."""
    while typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return [member for arg in typing.get_args(kind) if arg is not type(None) for member in variants(arg)]
    return [kind] if kind is not None else []


def tags(option: Any) -> tuple[Any, ...]:
    if isinstance(option, type) and issubclass(option, BaseModel) and "kind" in option.model_fields:
        return typing.get_args(option.model_fields["kind"].annotation)
    return ()
