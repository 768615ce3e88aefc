"""What verbs of a recipe share, written once: `@recipe_verb()` gives a verb --recipe, --directory and --json.

@recipe_verb()
def gather(opened: Opened, mix: MixArgument, shard: ShardArgument) -> None:
    facts = gather_shard(opened.layout, mix, shard)
    opened.say(facts, f"{facts['documents']:,} documents")
"""

import contextlib
import inspect
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from zgcm.cli.app import DEFAULT_RECIPE, DirectoryOption, JsonOption, RecipeOption, app
from zgcm.errors import ZgcmError

if TYPE_CHECKING:
    from zgcm.config.recipe import Recipe
    from zgcm.layout import Layout

HERE = Path()


@dataclass
class Opened:
    """The recipe and the results that a verb was told of; the recipe is read when first asked for."""

    paths: list[Path]
    directory: Path
    checkout: Path
    """Where locks lie."""
    as_json: bool

    @cached_property
    def recipe(self) -> "Recipe":
        from zgcm.config.load import load_recipe

        return load_recipe(self.paths, self.elsewhere)

    @property
    def elsewhere(self) -> Path | None:
        """The checkout, when it is not the verb's directory."""
        return None if self.directory == HERE else self.checkout

    @property
    def results(self) -> Path:
        return self.directory / "results"

    @property
    def layout(self) -> "Layout":
        from zgcm.layout import Layout

        return Layout(self.results)

    def say(self, value: Any, line: str) -> None:
        """The last word of a verb: a line for people, or with --json the whole for programs."""
        typer.echo(json.dumps(value, sort_keys=True) if self.as_json else line)


_OPTIONS = (
    Parameter("recipe", Parameter.KEYWORD_ONLY, default=DEFAULT_RECIPE, annotation=RecipeOption),
    Parameter("directory", Parameter.KEYWORD_ONLY, default=HERE, annotation=DirectoryOption),
    Parameter("as_json", Parameter.KEYWORD_ONLY, default=False, annotation=JsonOption),
)


def recipe_verb(
    name: str | None = None, group: typer.Typer = app
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a verb. Its first parameter is `Opened`, the others arguments and options."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function, eval_str=True)
        own = [part.replace(kind=Parameter.KEYWORD_ONLY) for part in list(signature.parameters.values())[1:]]

        def verb(recipe: list[Path], directory: Path, as_json: bool, **arguments: Any) -> None:
            opened = _open(recipe, directory, as_json)
            with _inside(opened):
                function(opened, **arguments)

        parameters = [*own, *_OPTIONS]
        verb.__name__, verb.__doc__ = function.__name__, function.__doc__
        verb.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        verb.__annotations__ = {part.name: part.annotation for part in parameters}
        group.command(name)(verb)
        return function

    return register


def _open(recipe: list[Path], directory: Path, as_json: bool) -> Opened:
    checkout = Path(os.environ.get("ZGCM_CHECKOUT") or ".").absolute()
    if directory == HERE:
        return Opened(recipe, HERE, checkout, as_json)
    if not directory.is_dir():
        raise ZgcmError("There is no such directory", where=str(directory), hint="correct --directory")
    return Opened([path.absolute() for path in recipe], directory.absolute(), checkout, as_json)


@contextlib.contextmanager
def _inside(opened: Opened) -> Iterator[None]:
    """Work in the verb's directory, as `snakemake --directory` does: the recipe's relative `files` are looked
    for there. Profiles of the user's still lie below the checkout."""
    before = os.environ.get("ZGCM_CHECKOUT")
    os.environ["ZGCM_CHECKOUT"] = str(opened.checkout)
    try:
        with contextlib.chdir(opened.directory):
            yield
    finally:
        if before is None:
            del os.environ["ZGCM_CHECKOUT"]
        else:
            os.environ["ZGCM_CHECKOUT"] = before


def refuse_unknown(what: str, name: str, names: list[str]) -> None:
    if name not in names:
        raise ZgcmError(f"The recipe has no such {what}", found=name, expected=", ".join(names) or "none")
