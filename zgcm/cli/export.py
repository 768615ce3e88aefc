"""`zgcm export STAGE`: weights of a finished stage in Hugging Face format."""

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
def export(
    stage: str = typer.Argument(help="A finished stage of the recipe, for instance sft or rl_math."),
    recipe: RecipeOption = DEFAULT_RECIPE,
    results: ResultsOption = DEFAULT_RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Write a finished stage as a Hugging Face directory, in the layout of the published model.

    Reads results/STAGE/done, the checkpoint or policy it names, and results/tokenizer/. Writes
    results/export/STAGE/: safetensors with an index, config.json, tokenizer, model code, model card and,
    last, manifest.json. Load it with AutoModelForCausalLM.from_pretrained(PATH, trust_remote_code=True).
    """
    from zgcm.model.export import export_stage

    loaded, layout = open_recipe(recipe, results)
    manifest = export_stage(loaded, layout, stage)
    if as_json:
        print(json.dumps(manifest))
        return
    size = sum(file["bytes"] for file in manifest["files"].values())
    typer.echo(
        f"{stage}: {manifest['parameters']:,} parameters in {manifest['dtype']}, {size / 1e6:,.1f} MB, "
        f"in {layout.export(stage)}"
    )
