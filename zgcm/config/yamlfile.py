"""Read one YAML file strictly: no key twice, no alias loops, and the line of every key for messages.

data, lines = read_yaml(Path("config/tiny.yaml"))
lines[("stages", "sft", "optimizer", "lr")]   # Place(file, line)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from zgcm.errors import ZgcmError

MERGE = "tag:yaml.org,2002:merge"
KeyPath = tuple[int | str, ...]


@dataclass(frozen=True)
class Place:
    """A line of a recipe file, counted from 1."""

    path: Path
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


Lines = dict[KeyPath, Place]


def read_yaml(path: Path) -> tuple[dict[str, Any], Lines]:
    """Parse a file (JSON is YAML). Raises ZgcmError with line and column."""
    text = _read_text(path)
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if root is None:
            raise ZgcmError("The recipe file is empty", where=str(path), expected="a mapping of keys")
        if not isinstance(root, yaml.MappingNode):
            raise ZgcmError(
                "A recipe is a mapping of keys", where=_at(path, root.start_mark), found=_kind(root)
            )
        _refuse_odd_nodes(path, root, ())
        # Lines first: constructing the data flattens the merge keys of the nodes in place.
        lines = {keys: Place(path, line) for keys, line in _key_lines(root, ())}
        return loader.construct_document(root), lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        tab = "indent with spaces; YAML forbids tabs" if "'\\t'" in str(error.problem) else ""
        raise ZgcmError(
            "Not valid YAML",
            where=_at(path, mark) if mark else str(path),
            found=", ".join(str(part) for part in (error.context, error.problem) if part),
            hint=tab,
        ) from error
    except yaml.YAMLError as error:
        raise ZgcmError("Not valid YAML", where=str(path), found=" ".join(str(error).split())) from error
    except RecursionError as error:
        raise ZgcmError(
            "Lists and mappings are nested too deeply", where=str(path), expected="some ten levels",
            hint="look for a bracket that is never closed",
        ) from error  # fmt: skip
    except ValueError as error:  # a date or number that only looks right: 2026-13-01
        raise ZgcmError(
            "A value is not what it looks like to YAML",
            where=str(path),
            found=str(error),
            hint="put it in quotes if it is text",
        ) from error


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ZgcmError(
            "No such recipe",
            where=str(path),
            hint="name one with --recipe; without it config/tiny.yaml is read, so start in the checkout",
        ) from error
    except UnicodeDecodeError as error:
        raise ZgcmError(
            "A recipe is UTF-8 text", where=str(path), found=f"byte {error.object[error.start]:#04x}"
        ) from error
    except OSError as error:
        raise ZgcmError("The recipe cannot be read", where=str(path), found=str(error.strerror)) from error


def _at(path: Path, mark: Any) -> str:
    return f"{path}:{mark.line + 1}:{mark.column + 1}"


def _kind(node: yaml.Node) -> str:
    return "a list" if isinstance(node, yaml.SequenceNode) else "a single value"


def _refuse_odd_nodes(path: Path, node: yaml.Node, above: tuple[int, ...]) -> None:
    """Raise for a key that stands twice in a mapping and for an alias that holds itself."""
    if id(node) in above:
        raise ZgcmError("An alias holds itself", where=_at(path, node.start_mark))
    above = (*above, id(node))
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_odd_nodes(path, item, above)
    if not isinstance(node, yaml.MappingNode):
        return
    first: dict[tuple[str, str], yaml.Node] = {}
    for key, value in node.value:
        _refuse_odd_nodes(path, value, above)
        if not isinstance(key, yaml.ScalarNode):
            continue
        earlier = first.setdefault((key.tag, key.value), key)
        if earlier is not key:
            raise ZgcmError(
                f"The key {key.value!r} stands twice in one mapping",
                where=_at(path, key.start_mark),
                found=f"the first one on line {earlier.start_mark.line + 1}",
                hint="keep one; YAML would silently take the last",
            )


def _key_lines(node: yaml.Node, prefix: KeyPath) -> Iterator[tuple[KeyPath, int]]:
    """Every key below a node with its line; keys merged with `<<` come first, so that own keys win."""
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield (*prefix, index), item.start_mark.line + 1
            yield from _key_lines(item, (*prefix, index))
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        if key.tag == MERGE:
            merged = value.value if isinstance(value, yaml.SequenceNode) else [value]
            for mapping in reversed(merged):
                yield from _key_lines(mapping, prefix)
    for key, value in node.value:
        if key.tag != MERGE and isinstance(key, yaml.ScalarNode):
            yield (*prefix, key.value), key.start_mark.line + 1
            yield from _key_lines(value, (*prefix, key.value))
