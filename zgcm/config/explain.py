"""Say what is wrong with a recipe: one line for each of pydantic's errors.

A line names the key's path as the user wrote it, what was found, what is allowed, and the likely remedy.
"""

import contextlib
import difflib
import re
import reprlib
import typing
from typing import Annotated, Any

import yaml
from pydantic import TypeAdapter, ValidationError

from zgcm.config.base import Section
from zgcm.config.keys import PLACEHOLDER, all_keys, is_section, sections, tags, variants
from zgcm.config.recipe import Recipe

SCALARS = (str, int, float, bool)
EXPECTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "dict_type": "a section of names",
    "model_type": "a section of keys",
    "model_attributes_type": "a section of keys",
}
KINDS = {
    "tokenizer": "train or import",
    "sources": "demo, files or hub",
    "stages": "pretrain, sft, rl or adopted",
    "prompts": "demo or files",
}


def describe(error: Any) -> list[str]:
    """Lines for one item of `ValidationError.errors()`; a cross-check may hold several."""
    section, path = follow(error["loc"])
    found, kind = error["input"], error["type"]
    if kind == "value_error":
        message = error["msg"].removeprefix("Value error, ")
        return [f"{path}: {line}" if path else line for line in message.split("\n")]
    return [f"{path}: {_explain(kind, error, section, path, found)}"]


def _explain(kind: str, error: Any, section: type[Section] | None, path: str, found: Any) -> str:
    if kind == "extra_forbidden":
        return _unknown_key(str(error["loc"][-1]), section, path, found)
    if error["loc"][-1] == "[key]" and kind != "literal_error":
        return f"a name is lower-case letters, digits and underscores; found {short(found)}"
    if kind == "invalid_key":
        return f"a key is text; found {short(error['loc'][-1])}; put it in quotes"
    if kind == "missing":
        return "this key is required"
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        return _wrong_kind(kind, path, error["ctx"], found)
    options = _options(error) if kind == "literal_error" else []
    if options:
        message = f"found {short(found)}; allowed: {', '.join(options)}"
        near = difflib.get_close_matches(found, options, n=1, cutoff=0.5) if isinstance(found, str) else []
        return message + (f"; did you mean {near[0]!r}?" if near else "")
    message = f"expected {EXPECTED[kind]}" if kind in EXPECTED else error["msg"][0].lower() + error["msg"][1:]
    remedy = _of_another_kind(section, str(error["loc"][-1]), found) or _remedy(kind, found)
    return f"{message}; found {short(found)}" + (f"; {remedy}" if remedy else "")


def _unknown_key(key: str, section: type[Section] | None, path: str, found: Any) -> str:
    known = sorted(section.model_fields) if section else []
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    elsewhere = _elsewhere(key, path, exact_only=bool(near))
    near = [] if elsewhere else near
    guess = f"did you mean {near[0]!r}? " if near else f"did you mean {elsewhere}? " if elsewhere else ""
    if elsewhere == path:
        here = {item.path for item in sections() if item.model is section}
        owners = [item.within for item in sections() if item.path in here and key in item.model.model_fields]
        guess = f"it belongs to {' or '.join(dict.fromkeys(owners))}; "
    return f"unknown key (found {short(found)}); {guess}allowed here: {', '.join(known)}"


def _elsewhere(key: str, path: str, exact_only: bool) -> str:
    """The path of a key of that name (or nearly so) in another section, names filled in where they agree."""
    last = {candidate: candidate.rpartition(".")[2] for candidate in all_keys()}
    exact = [candidate for candidate, name in last.items() if name == key]
    names = [] if exact_only else difflib.get_close_matches(key, list(last.values()), n=1, cutoff=0.8)
    candidates = exact or [candidate for candidate, name in last.items() if name in names]
    if not candidates:
        return ""
    here = path.split(".")
    filled = [_fill(candidate.split("."), here) for candidate in candidates]
    shared = [_shared(parts, here) for parts in filled]
    return ".".join(filled[shared.index(max(shared))])


def _fill(parts: list[str], here: list[str]) -> list[str]:
    """Replace `<name>` by the user's name where both paths run through the same mapping."""
    agree = True
    out = []
    for index, part in enumerate(parts):
        agree = agree and index < len(here) and part in (here[index], PLACEHOLDER)
        out.append(here[index] if agree else part)
    return out


def _shared(parts: list[str], here: list[str]) -> int:
    return next(
        (index for index, (a, b) in enumerate(zip(parts, here, strict=False)) if a != b),
        min(len(parts), len(here)),
    )


def _wrong_kind(kind: str, path: str, context: dict[str, Any], found: Any) -> str:
    allowed = context.get("expected_tags", "")
    if kind == "union_tag_invalid":
        options = [option.strip("' ") for option in allowed.split(",")]
        near = difflib.get_close_matches(str(context["tag"]), options, n=1, cutoff=0.5)
        return f"kind {context['tag']!r} is unknown; allowed: {allowed}" + (
            f"; did you mean {near[0]!r}?" if near else ""
        )
    if not isinstance(found, dict):
        return f"this is a section with a key `kind`; found {short(found)}"
    parts = path.split(".")
    return f"the key `kind` is required: {KINDS.get(parts[-1]) or KINDS[parts[0]]}"


def _options(error: Any) -> list[str]:
    return [part.strip("' ") for part in error["ctx"]["expected"].replace(" or ", ", ").split(", ")]


def _of_another_kind(section: type[Section] | None, key: str, found: Any) -> str:
    """An overlay that changes `kind` keeps the keys of the file below, which mean something else there."""
    path = next((item.path for item in sections() if item.model is section), None)
    for item in sections():
        field = item.model.model_fields.get(key)
        if item.path != path or item.model is section or field is None or found is None:
            continue
        values: Any = Annotated[field.annotation, field]
        with contextlib.suppress(ValidationError):
            TypeAdapter(values).validate_python(found, strict=True)
            return f"{item.variant} takes that; where an overlay changes `kind`, give this key a value there"
    return ""


def _remedy(kind: str, found: Any) -> str:
    """What to write instead, where YAML's reading of a value is the likely cause."""
    wants_number = kind in ("int_type", "float_type")
    if found is None:
        return "nothing stands after the colon; give a value or remove the key"
    if wants_number and isinstance(found, str):
        return _number_from_text(found)
    if kind == "int_type" and isinstance(found, float) and found.is_integer():
        return f"write {int(found)}"
    if wants_number and isinstance(found, bool):
        return "YAML reads yes, no, on and off as true and false"
    if kind == "bool_type":
        return "write true or false"
    if kind == "string_type" and not isinstance(found, dict | list):
        return f'put it in quotes if it is text: "{"no" if found is False else found}"'
    if kind == "list_type" and isinstance(found, SCALARS):
        return f"write a list: [{found}]"
    return ""


def _number_from_text(found: str) -> str:
    """YAML 1.1 wants a point and a signed exponent in a float: 2e-4 and 1.0e9 are text to it."""
    if not re.fullmatch(r"[+-]?[\d_]*\.?[\d_]+([eE][+-]?\d+)?", found.strip()):
        return ""
    value = float(found)
    number: int | float = int(value) if value.is_integer() else value
    as_yaml = yaml.safe_dump(number).split("\n")[0]
    why = "YAML 1.1 takes it for text" if "e" in found.lower() else "it is in quotes"
    return f"{why}; write {as_yaml}"


def short(value: Any) -> str:
    """A value for a message: 60 characters at most."""
    text = reprlib.Repr(maxstring=60, maxother=60, maxdict=3, maxlist=4, maxlevel=2).repr(value)
    return text if len(text) <= 100 else text[:97] + "..."


def follow(loc: tuple[int | str, ...]) -> tuple[type[Section] | None, str]:
    """The section that holds the last part of a location, and the location as the user wrote it.

    pydantic puts the tag of a discriminated union into the location; the user's file has no such level.
    """
    kind: Any = Recipe
    section: type[Section] | None = Recipe
    path: list[str] = []
    for part in loc:
        if part == "[key]":
            break
        options = variants(kind)
        tagged = [option for option in options if part in tags(option)]
        if len(options) > 1 and tagged:
            kind = section = tagged[0]
            continue
        path.append(str(part))
        kind = options[0] if options else None
        section = kind if is_section(kind) else None
        if section is not None:
            field = section.model_fields.get(str(part))
            kind = field.annotation if field else None
        elif typing.get_origin(kind) in (dict, list):
            kind = typing.get_args(kind)[-1]
        else:
            kind = None
    return section, ".".join(path)
