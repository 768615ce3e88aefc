"""The Typer application and what its verbs share: where the recipe and the results are."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="One workflow from raw text to an RL-trained language model. The workflow's rules call these verbs; "
    "each can be run alone.",
)


class Verb(TyperCommand):
    """Its usage line in the form of manual pages: STAGE [SHARD] FILE..., where Typer writes {STAGE}."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [_plain(piece) for piece in super().collect_usage_pieces(ctx)]


def _plain(piece: str) -> str:
    required = re.fullmatch(r"\{(.*)\}(\.\.\.)?", piece)
    if required is None:
        return piece
    name, more = required.groups()
    return name if "..." in name else name + (more or "")


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
