"""`zgcm run`: the whole workflow with readable progress and a table at the end. Snakemake does the work."""

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from zgcm import stopping
from zgcm.cli.app import app
from zgcm.layout import Layout

DRY = {"-n", "--dry-run", "--dryrun"}
SNAKEFILE = Path(__file__).parents[2] / "Snakefile"


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run(
    context: typer.Context,
    recipe: Annotated[
        list[Path],
        typer.Option("--recipe", "-r", help="Recipe file; repeat for overlays, later ones win. [tiny.yaml]"),
    ] = [],  # noqa: B006 - typer wants a list and never changes it
    cores: Annotated[str | None, typer.Option("--cores", "-c", help="Cores of this machine. [all]")] = None,
    directory: Annotated[Path, typer.Option("--directory", "-d", help="Where results/ lies.")] = Path(),
) -> None:
    """Run everything that is not up to date, from raw text to the report.

    Anything else goes to Snakemake, for instance a target (`zgcm run results/sft/done`) or `--profile slurm`.
    After a crash, give the same command again. To see what would run and why, add -n: nothing is done then.
    """
    if not DRY.isdisjoint(context.args):
        raise typer.Exit(snakemake(arguments(recipe, cores, directory, context.args), show_progress=False))
    began = time.monotonic()
    code = snakemake(arguments(recipe, cores, directory, context.args))
    if code and stopping.was_requested():
        typer.echo("\nStopped at your request. The same command goes on from what is finished or saved.")
        raise typer.Exit(128 + stopping.received[0])
    if code:
        typer.echo("\nNot finished. The same command goes on from here; mend what failed first.")
        raise typer.Exit(code)
    made = [directory / target for target in context.args if (directory / target).exists()]
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


def snakemake(argv: list[str], show_progress: bool = True) -> int:
    """Run Snakemake in this process, with our progress lines or its own. Returns its exit code."""
    from snakemake.cli import main
    from snakemake_interface_logger_plugins.registry import LoggerPluginRegistry

    from zgcm.cli import progress

    here = Path.cwd()
    try:
        if show_progress:
            LoggerPluginRegistry().register_plugin("snakemake_logger_plugin_zgcm", progress)
            argv = [*argv, "--logger", "zgcm"]
        main(argv)
    except SystemExit as end:
        return int(end.code or 0)
    except KeyboardInterrupt:
        return 1
    finally:
        os.chdir(here)  # Snakemake stays in --directory
    return 0
