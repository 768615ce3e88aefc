"""The Typer application and what its verbs share: where the recipe and the results are."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from zgcm.config.recipe import Recipe
    from zgcm.layout import Layout

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="One workflow from raw text to an RL-trained language model. The workflow's rules call these verbs; "
    "each can be run alone.",
)

RecipeOption = Annotated[
    list[Path],
    typer.Option(
        "--recipe", "-r", envvar="ZGCM_RECIPE", help="Recipe file; repeat for overlays, later ones win."
    ),
]
ResultsOption = Annotated[
    Path, typer.Option("--results", envvar="ZGCM_RESULTS", help="Directory of the results.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]

DEFAULT_RECIPE = [Path("config/tiny.yaml")]
DEFAULT_RESULTS = Path("results")


@app.callback()
def _verbs() -> None:
    """Keeps verbs named even while there is only one."""


def open_recipe(recipe: list[Path], results: Path) -> "tuple[Recipe, Layout]":
    from zgcm.config.load import load_recipe
    from zgcm.layout import Layout

    return load_recipe(recipe), Layout(results)
