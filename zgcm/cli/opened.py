"""What verbs of a recipe share, written once: `@recipe_verb()` gives a verb --recipe, --results and --json.

@recipe_verb()
def gather(opened: Opened, mix: MixArgument, shard: ShardArgument) -> None:
    facts = gather_shard(opened.layout, mix, shard)
    opened.say(facts, f"{facts['documents']:,} documents")
"""

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from zgcm.cli.app import DEFAULT_RECIPE, DEFAULT_RESULTS, JsonOption, RecipeOption, ResultsOption, app
from zgcm.errors import ZgcmError

if TYPE_CHECKING:
    from zgcm.config.recipe import Recipe
    from zgcm.layout import Layout


@dataclass
class Opened:
    """The recipe and the results that a verb was told of; the recipe is read when first asked for."""

    paths: list[Path]
    results: Path
    as_json: bool

    @cached_property
    def recipe(self) -> "Recipe":
        from zgcm.config.load import load_recipe

        return load_recipe(self.paths)

    @property
    def layout(self) -> "Layout":
        from zgcm.layout import Layout

        return Layout(self.results)

    def say(self, value: Any, line: str) -> None:
        """The last word of a verb: a line for people, or with --json the whole for programs."""
        typer.echo(json.dumps(value, sort_keys=True) if self.as_json else line)


_OPTIONS = (
    Parameter("recipe", Parameter.KEYWORD_ONLY, default=DEFAULT_RECIPE, annotation=RecipeOption),
    Parameter("results", Parameter.KEYWORD_ONLY, default=DEFAULT_RESULTS, annotation=ResultsOption),
    Parameter("as_json", Parameter.KEYWORD_ONLY, default=False, annotation=JsonOption),
)


def recipe_verb(name: str | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a verb. Its first parameter is `Opened`, the others arguments and options."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function, eval_str=True)
        own = [part.replace(kind=Parameter.KEYWORD_ONLY) for part in list(signature.parameters.values())[1:]]

        def verb(recipe: list[Path], results: Path, as_json: bool, **arguments: Any) -> None:
            function(Opened(recipe, results, as_json), **arguments)

        parameters = [*own, *_OPTIONS]
        verb.__name__, verb.__doc__ = function.__name__, function.__doc__
        verb.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        verb.__annotations__ = {part.name: part.annotation for part in parameters}
        app.command(name)(verb)
        return function

    return register


def refuse_unknown(what: str, name: str, names: list[str]) -> None:
    if name not in names:
        raise ZgcmError(f"The recipe has no such {what}", found=name, expected=", ".join(names) or "none")
