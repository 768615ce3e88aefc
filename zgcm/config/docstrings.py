"""What stands below each key of a section, for the reference page and the schema.

pydantic can read it too (use_attribute_docstrings), but does so at every start of every verb: 0.15 s.
"""

import ast
import inspect
import itertools
import sys
from functools import cache

from zgcm.config.base import Section


def key_docstrings(model: type[Section]) -> dict[str, str]:
    """The docstring of each key that has one, those of its bases included."""
    found: dict[str, str] = {}
    for each in reversed(model.__mro__):
        found |= _of_module(each.__module__).get(each.__name__, {}) if issubclass(each, Section) else {}
    return found


@cache
def _of_module(name: str) -> dict[str, dict[str, str]]:
    tree = ast.parse(inspect.getsource(sys.modules[name]))
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef))
    return {node.name: dict(_documented(node)) for node in classes}


def _documented(node: ast.ClassDef) -> list[tuple[str, str]]:
    return [
        (key.target.id, inspect.cleandoc(below.value.value))
        for key, below in itertools.pairwise(node.body)
        if isinstance(key, ast.AnnAssign) and isinstance(key.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(below.value.value, str)
    ]
