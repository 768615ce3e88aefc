"""`zgcm run`: the whole workflow with readable progress and a table at the end. Snakemake does the work."""

import os
import time
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from zgcm import stopping
from zgcm.cli.app import app
from zgcm.layout import Layout

SNAKEFILE = Path(__file__).parents[2] / "Snakefile"


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run(
    context: typer.Context,
    recipe: Annotated[
        list[Path],
        typer.Option(
            "--recipe",
            "-r",
            show_default="the profile's, else config/tiny.yaml",
            help="Recipe file; repeat for overlays, later ones win.",
        ),
    ] = [],  # noqa: B006 - typer wants a list and never changes it
    cores: Annotated[
        str | None,
        typer.Option(
            "--cores", "-c", show_default="all; of a --profile its own", help="Cores of this machine."
        ),
    ] = None,
    directory: Annotated[
        Path,
        typer.Option(
            "--directory", "-d", help="Where results/ lies, and what the recipe's `files` start from."
        ),
    ] = Path(),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "--dryrun", "-n", help="Say what would run and why, and do nothing.")
    ] = False,
) -> None:
    """Run everything that is not up to date, from raw text to the report.

    Anything else goes to Snakemake: a target, which is a stage or a file (`zgcm run sft`, `zgcm run
    results/mixes/sft/dataset.json`), or an option (`--profile slurm`). After a crash, give the same command
    again.

    Look first: zgcm check (is the recipe right), zgcm run -n (what would run and why), zgcm plan (what it
    costs). Look meanwhile: zgcm status.
    """
    from zgcm.cli import checked, dryrun, progress

    given = arguments(recipe, cores, directory, context.args)
    files, targets, forced = checked.check(given, directory, SNAKEFILE.parent)
    argv = arguments(files, cores, directory, [targets.get(word, word) for word in context.args])
    argv += ["--forcerun", *forced] if forced else []
    progress.asked[:] = targets
    if dry_run:
        raise typer.Exit(snakemake([*argv, "--dry-run"], dryrun))
    began = time.monotonic()
    code = snakemake(argv, progress)
    if code and stopping.was_requested():
        typer.echo("\nStopped at your request. The same command goes on from what is finished or saved.")
        raise typer.Exit(128 + stopping.received[0])
    if code:
        if progress.begun:
            typer.echo("\nNot finished. The same command goes on from here; mend what failed first.")
        raise typer.Exit(code)
    made = [directory / file for file in targets.values() if (directory / file).exists()]
    typer.echo("\n" + ("\n".join(map(str, made)) if made else stages_of(directory)))
    typer.echo(f"{time.monotonic() - began:.0f} s in all")


def stages_of(directory: Path) -> str:
    """What each stage of the results below `directory` did, and the report's path; empty without results."""
    from zgcm.config.load import load_recipe
    from zgcm.io import read_json
    from zgcm.report.table import render, stage_table

    layout = Layout(directory / "results")
    if not layout.stamp.exists():
        return ""
    recipe = load_recipe([directory / read_json(layout.stamp)["recipe"]])
    report = f"\n\nReport: {layout.report}" if layout.report.exists() else ""
    return f"{render(stage_table(recipe, layout))}{report}"


def arguments(recipe: list[Path], cores: str | None, directory: Path, extra: list[str]) -> list[str]:
    """Snakemake's command line. A profile chooses its own executor and recipe unless they are given."""
    chosen = ["--snakefile", str(SNAKEFILE), "--directory", str(directory)]
    if recipe:
        chosen += ["--configfile", *(str(path.absolute()) for path in recipe)]
    if cores or "--profile" not in extra:
        chosen += ["--cores", cores or "all"]
    return [*extra, *chosen]


def snakemake(argv: list[str], shown_by: ModuleType) -> int:
    """Run Snakemake in this process; the module's `LogHandler` says what it does. Returns its exit code."""
    from snakemake.cli import main
    from snakemake_interface_logger_plugins.registry import LoggerPluginRegistry

    here = Path.cwd()
    try:
        LoggerPluginRegistry().register_plugin("snakemake_logger_plugin_zgcm", shown_by)
        main([*argv, "--logger", "zgcm"])
    except SystemExit as end:
        return int(end.code or 0)
    except KeyboardInterrupt:
        return 1
    finally:
        os.chdir(here)  # Snakemake stays in --directory
    return 0
