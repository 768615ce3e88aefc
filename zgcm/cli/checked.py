"""What `zgcm run` looks at before Snakemake starts, so that its errors are those of every verb."""

import contextlib
import io
import os
import sys
from pathlib import Path
from typing import Any


def check(argv: list[str], directory: Path, checkout: Path) -> None:
    """The recipe of a Snakemake command line: its keys, the files it lists, whose results lie in `directory`.

    Raises ZgcmError. The Snakefile checks the same again, for those who call Snakemake themselves.
    """
    from snakemake.cli import parse_config

    from zgcm.config.load import merge_files, validate_recipe
    from zgcm.config.places import locate
    from zgcm.config.recipe import deep_merge
    from zgcm.layout import Layout
    from zgcm.missing import require_files
    from zgcm.report.recipe import sandbox_remarks
    from zgcm.rundir.stamp import check_stamp

    options = read(argv)
    files = [_short(file) for file in options.configfile or [checkout / "config/tiny.yaml"]]
    merged, lines = merge_files(files)
    merged = deep_merge(merged, parse_config(options.config))
    os.environ["ZGCM_CHECKOUT"] = str(checkout)  # profiles of the user's lie below it, for the jobs too
    directory.mkdir(parents=True, exist_ok=True)  # as Snakemake does, also for a dry run
    with contextlib.chdir(directory):
        recipe = validate_recipe(locate(merged, checkout), ", ".join(map(str, files)), lines)
        require_files(recipe)
        check_stamp(Layout().stamp, recipe.name)
    for remark in sandbox_remarks(recipe):
        print(f"zgcm: {remark}", file=sys.stderr)


def _short(path: Path) -> Path:
    """As other verbs name it: from the working directory, where it lies below it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def read(argv: list[str]) -> Any:
    """Snakemake's options, profiles included. What it prints while reading it prints again when it starts;
    shown here is only why it refuses them."""
    from snakemake.cli import parse_args

    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return parse_args(argv)[1]
    except SystemExit:
        print(said.getvalue(), end="", file=sys.stderr)
        raise
