"""`zgcm status`: how far each stage is, and why a finished one is stale."""

import json

import typer

from zgcm.cli.app import (
    DEFAULT_RECIPE,
    DEFAULT_RESULTS,
    JsonOption,
    RecipeOption,
    ResultsOption,
    app,
    open_recipe,
)


@app.command()
def status(
    recipe: RecipeOption = DEFAULT_RECIPE,
    results: ResultsOption = DEFAULT_RESULTS,
    as_json: JsonOption = False,
) -> None:
    """State of every stage: done, running (step of total, loss), interrupted, stopped, stale or waiting.

    Reads files only; safe at any time, also beside a running pipeline. A stale stage names the recipe keys
    that changed since it was made. Changed raw data is not looked at here: `snakemake -n` tells.
    """
    from zgcm.rundir.stamp import check_stamp
    from zgcm.status import last_value, stage_states

    loaded, layout = open_recipe(recipe, results)
    check_stamp(layout.stamp, loaded.name)
    rows = stage_states(loaded, layout)
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    widest = max(len(row["stage"]) for row in rows)
    for row in rows:
        total = "?" if row["steps"] is None else f"{row['steps']:,}"
        steps = f"{row['step']:,} of {total}" if row["run_id"] else f"{total} steps"
        line = f"{row['stage']:<{widest}}  {row['state']:<11}  {steps:>18}  {last_value(row):<14}"
        typer.echo(f"{line}  {row['detail']}".rstrip())
    done = sum(row["state"] == "done" for row in rows)
    where = results if results.is_dir() else f"{results}, which does not exist"
    typer.echo(f"{loaded.name}: {done} of {len(rows)} stages done in {where}")
