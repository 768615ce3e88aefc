"""What `zgcm run` looks at before Snakemake starts, so that its errors are those of every verb."""

import contextlib
import io
import os
import re
import sys
from pathlib import Path
from typing import Any

from zgcm.cli.app import DEFAULT_RECIPE
from zgcm.errors import ZgcmError


def check(argv: list[str], directory: Path, checkout: Path) -> tuple[list[Path], dict[str, str], list[str]]:
    """The recipe of a Snakemake command line: its keys, the files it lists, whose results lie in `directory`.

    Returns the recipe's files (where none is named, those of other verbs), each target with the file that it
    means (a stage's name is its `done`), and what must be made although Snakemake would not: what was asked
    for, and results that a verb called by hand made with another recipe. Raises ZgcmError. The Snakefile
    checks the recipe again, for those who call Snakemake themselves.
    """
    from snakemake.cli import parse_config

    from zgcm.config.load import merge_files, validate_recipe
    from zgcm.config.places import locate
    from zgcm.config.recipe import deep_merge
    from zgcm.data_status import made_by_hand
    from zgcm.layout import Layout
    from zgcm.missing import SHOWN, require_files
    from zgcm.numbers import counted
    from zgcm.report.recipe import sandbox_remarks
    from zgcm.rundir.stamp import check_stamp

    options = read(argv)
    files = [_short(file) for file in options.configfile or DEFAULT_RECIPE]
    merged, lines = merge_files(files)
    merged = deep_merge(merged, parse_config(options.config))
    os.environ["ZGCM_CHECKOUT"] = str(checkout)  # profiles of the user's lie below it, for the jobs too
    make(directory)
    with contextlib.chdir(directory):
        recipe = validate_recipe(locate(merged, checkout), ", ".join(map(str, files)), lines)
        require_files(recipe)
        check_stamp(Layout().stamp, recipe.name)
        by_hand = [str(path) for path in made_by_hand(recipe, Layout())]
    for remark in sandbox_remarks(recipe):
        print(f"zgcm: {remark}", file=sys.stderr)
    if by_hand:
        more = f" and {len(by_hand) - SHOWN} more" if len(by_hand) > SHOWN else ""
        print(
            f"zgcm: {counted(len(by_hand), 'result')} made by hand with another recipe, to be made again: "
            f"{', '.join(by_hand[:SHOWN])}{more}",
            file=sys.stderr,
        )
    done = {name: str(Layout().done(name)) for name in recipe.stages}
    targets = {target: done.get(target, target) for target in options.targets}
    return files, targets, [*(options.forcerun or []), *by_hand]


def make(directory: Path) -> None:
    """As Snakemake does, also for a dry run."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except FileNotFoundError as error:  # below /proc, and where the working directory was removed
        raise ZgcmError(
            "The directory cannot be made", where=str(directory), hint="choose another --directory"
        ) from error


def _short(path: Path) -> Path:
    """As other verbs name it: from the working directory, where it lies below it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def read(argv: list[str]) -> Any:
    """Snakemake's options, profiles included. What it prints while reading it prints again when it starts.

    Raises ZgcmError where it refuses them, without the 130 lines of its usage.
    """
    from snakemake.cli import parse_args
    from snakemake.exceptions import CliException

    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return parse_args(argv)[1]
    except SystemExit as end:
        if not end.code:  # --version
            raise
        why = re.split("error: ", said.getvalue(), flags=re.IGNORECASE)[-1]
    except CliException as error:
        why = error.msg
    raise ZgcmError(
        "Snakemake refuses the command's options",
        found=" ".join(why.split()),
        hint="zgcm run --help lists those of zgcm, snakemake --help the others; what is to be made is a word "
        "alone, before them: zgcm run sft",
    )
