"""Every key a recipe can have, walked from the models: feeds the reference page and "did you mean"."""

import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic.fields import FieldInfo

from zgcm.config.base import Section, is_execution
from zgcm.config.recipe import Recipe

PLACEHOLDER = "<name>"


@dataclass(frozen=True)
class KeySection:
    """A section of the recipe: where it stands and which model describes it."""

    path: str
    """As in a recipe, names of your choice as `<name>`: `stages.<name>.optimizer`; the top is empty."""
    model: type[Section]
    variant: str
    """`kind: hub` where several models share the path, else empty."""
    within: str
    """The variant of the section itself, else of the nearest one around it that has one."""
    execution: bool
    """The whole section never decides a result."""


def variants(kind: Any) -> list[Any]:
    """The members of a (possibly annotated) union, None left out; a plain type is its own only member."""
    while typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return [member for arg in typing.get_args(kind) if arg is not type(None) for member in variants(arg)]
    return [kind] if kind is not None else []


def is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Section)


def tags(option: Any) -> tuple[Any, ...]:
    """The values of `kind` that select a member of a union of sections."""
    if is_section(option) and "kind" in option.model_fields:
        return typing.get_args(option.model_fields["kind"].annotation)
    return ()


def inner_sections(field: FieldInfo) -> Iterator[tuple[str, type[Section]]]:
    """(path below the field, section) for each section that a field holds, also as values of a mapping."""
    for option in variants(field.annotation):
        if is_section(option):
            yield "", option
        elif typing.get_origin(option) is dict:
            for value in variants(typing.get_args(option)[1]):
                if is_section(value):
                    yield PLACEHOLDER, value


@cache
def sections() -> tuple[KeySection, ...]:
    """Every section in the order of the models, a section before its subsections."""
    return tuple(_walk("", Recipe, False))


def _walk(
    path: str, model: type[Section], execution: bool, variant: str = "", within: str = ""
) -> Iterator[KeySection]:
    within = variant or within
    yield KeySection(path, model, variant, within, execution)
    for name, field in model.model_fields.items():
        inner = list(inner_sections(field))
        for below, section in inner:
            at = ".".join(part for part in (path, name, below) if part)
            label = "kind: " + " or ".join(map(str, tags(section))) if len(inner) > 1 else ""
            yield from _walk(at, section, execution or is_execution(field), label, within)


@cache
def all_keys() -> tuple[str, ...]:
    """Paths of all keys, `stages.<name>.optimizer.lr` and so on, each once."""
    paths = (
        ".".join(part for part in (section.path, name) if part)
        for section in sections()
        for name in section.model.model_fields
    )
    return tuple(dict.fromkeys(paths))
