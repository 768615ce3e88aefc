"""`zgcm check`: is a recipe right, before anything runs?"""

import json

import typer

from zgcm.cli.app import DEFAULT_RECIPE, DEFAULT_RESULTS, JsonOption, RecipeOption, app, open_recipe


@app.command()
def check(recipe: RecipeOption = DEFAULT_RECIPE, as_json: JsonOption = False) -> None:
    """Validate a recipe and name its stages. Every wrong key is listed at once."""
    loaded, _ = open_recipe(recipe, DEFAULT_RESULTS)
    if as_json:
        print(json.dumps({"name": loaded.name, "stages": list(loaded.stages)}))
        return
    typer.echo(f"{loaded.name}: a valid recipe with stages {', '.join(loaded.stages)}")
