"""The second form of some verbs: plain files outside any recipe. `--output` chooses it.

zgcm clean SOURCE SHARD                                        a shard of the recipe
zgcm clean IN... --category C --stage S --output DIR           files of yours
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from zgcm.errors import ZgcmError
from zgcm.files.fanout import Cluster, Fanout
from zgcm.records import FORMATS

OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Where the results go; chooses the form for plain files."),
]
TokenizerOption = Annotated[
    Path | None, typer.Option("--tokenizer", help="Files: a tokenizer directory, ours or as published.")
]
TextFieldOption = Annotated[
    list[str] | None, typer.Option(help="Files: a field of the text; repeat to join several. [text]")
]
IncludeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--include",
        metavar="DECISION",
        help="Files: of cleaned records also those of this decision: review.",
        show_default="keep alone",
    ),
]
JobsOption = Annotated[int, typer.Option("--jobs", "-j", min=1, help="Files: how many are done at once.")]
FanoutOption = Annotated[
    str | None,
    typer.Option("--fanout", help="Files: `slurm` sends them as a job array, `local` tries that here."),
]
SlurmOption = Annotated[
    list[str] | None,
    typer.Option(
        "--slurm", metavar="KEY=VALUE", help="Files: an option of sbatch, for instance partition=cpu."
    ),
]
CLUSTERS: dict[str, Cluster] = {"local": "local", "slurm": "slurm"}


def names_or_teach(verb: str, given: list[str], names: str, file_form: str) -> list[str]:
    """The names that the recipe form takes (`names`, for instance SOURCE SHARD). Raises ZgcmError that shows
    both forms when the arguments do not fit."""
    looks_like_files = any(item.endswith(FORMATS) or "/" in item or Path(item).exists() for item in given)
    if len(given) == len(names.split()) and not looks_like_files:
        return given
    what = "These look like files, and nothing says where the results go" if looks_like_files else (
        f"zgcm {verb} takes {names}, or files and --output"
    )  # fmt: skip
    raise ZgcmError(
        what, found=" ".join(given) or "no arguments",
        hint=f"for a recipe: zgcm {verb} {names}; for files: zgcm {verb} {file_form}",
    )  # fmt: skip


def refuse_file_options(verb: str, names: str, **options: Any) -> None:
    """Options of the file form without --output. Raises ZgcmError naming them."""
    given = [f"--{name.replace('_', '-')}" for name, value in options.items() if value not in (None, [])]
    if given:
        raise ZgcmError(
            "These options are for plain files, and nothing says where the results go", found=" ".join(given),
            expected=f"--output too, or without them: zgcm {verb} {names}",
        )  # fmt: skip


def require(option: str, value: Any, example: str) -> Any:
    if value is None:
        raise ZgcmError(f"Plain files need {option}", found="nothing", expected=example)
    return value


def fanout(jobs: int, cluster: str | None, slurm: list[str] | None, output: Path) -> Fanout:
    """Raises ZgcmError for an unknown cluster or an option without a value."""
    if cluster is not None and cluster not in CLUSTERS:
        raise ZgcmError("No such --fanout", found=cluster, expected=", ".join(CLUSTERS))
    if slurm and cluster != "slurm":
        raise ZgcmError("--slurm needs --fanout slurm", found=f"--slurm {slurm[0]}", hint="give both")
    pairs = [item.partition("=") for item in slurm or []]
    if wrong := [key for key, separator, _ in pairs if not separator]:
        raise ZgcmError("--slurm takes KEY=VALUE", found=wrong[0], hint=f"write --slurm {wrong[0]}=...")
    options = {key: value for key, _, value in pairs}
    return Fanout(
        jobs, CLUSTERS[cluster] if cluster else None, output.parent / f".{output.name}.jobs", options
    )


def progress(line: str) -> None:
    """One line a finished file, on stderr: stdout holds the result alone."""
    typer.echo(line, err=True)
