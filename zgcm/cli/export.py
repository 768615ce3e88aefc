"""`zgcm export STAGE`: weights of a finished stage in Hugging Face format."""

from typing import Annotated

import typer

from zgcm.cli.opened import Opened, recipe_verb


@recipe_verb()
def export(
    opened: Opened,
    stage: Annotated[
        str,
        typer.Argument(metavar="STAGE", help="A finished stage of the recipe, for instance sft or rl_math."),
    ],
) -> None:
    """Write a finished stage as a Hugging Face directory, in the layout of the published model.

    Reads results/STAGE/done, the checkpoint or policy it names, and results/tokenizer/. Writes
    results/export/STAGE/: safetensors with an index, config.json, tokenizer, model code, model card and,
    last, manifest.json. Load it with AutoModelForCausalLM.from_pretrained(PATH, trust_remote_code=True).
    """
    from zgcm.model.export import export_stage

    manifest = export_stage(opened.recipe, opened.layout, stage)
    size = sum(file["bytes"] for file in manifest["files"].values())
    opened.say(
        manifest,
        f"{stage}: {manifest['parameters']:,} parameters in {manifest['dtype']}, {size / 1e6:,.1f} MB, "
        f"in {opened.layout.export(stage)}",
    )
