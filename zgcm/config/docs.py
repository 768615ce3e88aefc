"""Generate what is written about the recipe from its models: config/schema.json and docs/recipe.md.

Both are committed; a test fails when they drift, and `zgcm schema`, `zgcm keys` write them anew.
"""

import json
import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from zgcm.config.base import Section, is_execution
from zgcm.config.docstrings import key_docstrings
from zgcm.config.keys import KeySection, inner_sections, is_section, sections, variants
from zgcm.config.recipe import Recipe

SCHEMA_FILE = Path("config/schema.json")
REFERENCE_FILE = Path("docs/recipe.md")

INTRODUCTION = """\
# The recipe: every key

<!-- Generated from the models in zgcm/config by `zgcm keys`. Edit their docstrings, not this page. -->

A recipe is one YAML file: `config/tiny.yaml` and `config/zgcm-7b.yaml` are complete examples.
Give overlays to change some keys: `zgcm check -r config/zgcm-7b.yaml -r my-cluster.yaml`. Mappings merge key
by key, anything else replaces; `null` takes out a mix's source, a stage's mix, or a key of the tokenizer.

- `zgcm check` validates a recipe and says what it amounts to: parameters, steps, tokens, ranks.
- `zgcm id train midtrain_64k` prints the identity of a step and everything that it is made of.
- **identity** keys decide a result. Changing one makes that step, and everything built on it, stale.
- **execution** keys say how a step runs: nodes, threads, intervals, paths. Changing one makes nothing stale.
- A name of your choice stands as `<name>`: lower-case letters, digits, underscores.
- `stage_defaults` holds keys that all stages of a kind share; a stage's own keys win.
- Types are strict. `2e-4` is text in YAML 1.1: write `2.0e-4` or `0.0002`.
- A key that stands twice in one mapping is refused.

"""


def schema() -> dict[str, Any]:
    """JSON schema of a recipe file, for editors.

    Sections of stages require only `kind` in it: the rest may come from `stage_defaults`, which are applied
    before validation. `zgcm check` remains the judge.
    """
    made = Recipe.model_json_schema()
    models: list[type[Section]] = [Recipe, *_all_below(Section)]
    for model in models:
        described = made if model is Recipe else made["$defs"].get(model.__name__, {})
        for key, text in key_docstrings(model).items() if described else ():
            described["properties"][key]["description"] = text
    for name in _below_stages():
        section = made["$defs"].get(name, {})
        section["required"] = [key for key in section.get("required", []) if key == "kind"]
        if not section["required"]:
            del section["required"]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def _all_below(model: type[Section]) -> Iterator[type[Section]]:
    for each in model.__subclasses__():
        yield each
        yield from _all_below(each)


def _below_stages() -> set[str]:
    return {section.model.__name__ for section in sections() if section.path.startswith("stages.")}


def schema_text() -> str:
    return json.dumps(schema(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def reference_text() -> str:
    """The reference page: a table of keys for each section, each model described once."""
    shown: dict[type[Section], str] = {}
    parts = [INTRODUCTION]
    for section in sections():
        title = _title(section)
        if section.model in shown:
            continue
        shown[section.model] = title
        parts.append(_section_text(section, title))
    return "".join(parts).rstrip("\n") + "\n"


def _title(section: KeySection) -> str:
    path = f"`{section.path}`" if section.path else "The recipe's top"
    return f"{path} ({section.variant})" if section.variant else path


def _section_text(section: KeySection, title: str) -> str:
    purpose = " ".join((section.model.__doc__ or "").split())
    paths = dict.fromkeys(other.path for other in sections() if other.model is section.model)
    also = [f"`{path}`" for path in paths if path != section.path]
    lines = [f"## {title}", ""]
    if purpose:
        lines += [purpose, ""]
    if also:
        lines += [f"The same keys stand below {', '.join(also)}.", ""]
    lines += ["| key | type | default | what it is | decides |", "| --- | --- | --- | --- | --- |"]
    said = key_docstrings(section.model)
    lines += [
        _row(name, field, said.get(name, ""), section.execution)
        for name, field in section.model.model_fields.items()
    ]
    return "\n".join(lines) + "\n\n"


def _row(name: str, field: FieldInfo, said: str, inside_execution: bool) -> str:
    inner = [model for _, model in inner_sections(field)]
    execution = inside_execution or is_execution(field)
    decides = "execution" if execution else "see its section" if inner else "identity"
    cells = [f"`{name}`", _type(field), _default(field), " ".join(said.split()), decides]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _type(field: FieldInfo) -> str:
    names = [_type_name(kind) for kind in variants(field.annotation)]
    limits = [_limit(item) for item in (*field.metadata, *_inner_constraints(field.annotation))]
    return " ".join([" or ".join(dict.fromkeys(names)), *filter(None, limits)])


def _inner_constraints(kind: Any) -> list[Any]:
    """Constraints of `PositiveInt | None`, which pydantic keeps inside the union."""
    members = typing.get_args(kind) if typing.get_origin(kind) in (typing.Union, types.UnionType) else ()
    return [item for member in members for item in getattr(member, "__metadata__", ())]


def _type_name(kind: Any) -> str:
    """A type in a user's words."""
    while typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return ", ".join(f"`{arg}`" for arg in args)
    if origin is list:
        return f"list of {_type_name(args[0])}"
    if origin is dict:
        values = list(dict.fromkeys(_type_name(option) for option in variants(args[1])))
        return f"names -> {' or '.join(values)}"
    if is_section(kind):
        return "section"
    return {int: "whole number", float: "number", str: "text", bool: "true, false", Any: "any value"}[kind]


def _limit(constraint: Any) -> str:
    for attribute, sign in (("gt", ">"), ("ge", ">="), ("lt", "<"), ("le", "<=")):
        value = getattr(constraint, attribute, None)
        if value is not None:
            return f"{sign} {value}"
    return ""


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "required"
    if field.default is None:
        return "absent"
    if isinstance(field.default, Section):
        return "its defaults" if not field.default.model_fields_set else _given(field.default)
    return f"`{_plain(field.default)}`"


def _given(section: Section) -> str:
    given = {name: getattr(section, name) for name in sorted(section.model_fields_set)}
    return "`" + ", ".join(f"{name}: {_plain(value)}" for name, value in given.items()) + "`"


def _plain(value: Any) -> str:
    """A default as YAML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value < 1e-3 and value:
        return re.sub(r"^(\d)e-0?(\d+)$", r"\1.0e-\2", repr(value))
    quoted = isinstance(value, list | dict) or value == ""
    return json.dumps(value, ensure_ascii=False) if quoted else str(value)
