"""The Typer application and what its verbs share: where the recipe and the results are."""

from pathlib import Path
from typing import Annotated

import typer

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
DirectoryOption = Annotated[
    Path,
    typer.Option("--directory", "-d", help="Where results/ lies, and what the recipe's `files` start from."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]

DEFAULT_RECIPE = [Path("config/tiny.yaml")]


@app.callback()
def _verbs() -> None:
    """Keeps verbs named even while there is only one."""
