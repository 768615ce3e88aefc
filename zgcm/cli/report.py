"""`zgcm report`: one page about everything."""

import typer

from zgcm.cli.app import DEFAULT_RECIPE, DEFAULT_RESULTS, RecipeOption, ResultsOption, app, open_recipe


@app.command()
def report(recipe: RecipeOption = DEFAULT_RECIPE, results: ResultsOption = DEFAULT_RESULTS) -> None:
    """Write results/report.html: pipeline, losses, reward, data counts, manifests, on one page.

    The page needs no network and no other file. An unfinished run gives a page too: it says what is missing.
    """
    from zgcm.report.page import write_report
    from zgcm.rundir.stamp import check_stamp

    loaded, layout = open_recipe(recipe, results)
    check_stamp(layout.stamp, loaded.name)
    path = write_report(loaded, layout)
    typer.echo(f"Wrote {path} ({path.stat().st_size / 1e3:,.0f} kB)")
