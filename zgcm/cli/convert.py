"""`zgcm convert`: weights between the published Hugging Face layout and a Megatron checkpoint."""

from pathlib import Path
from typing import Annotated

import typer

from zgcm.cli.app import JsonOption, app
from zgcm.errors import ZgcmError


@app.command()
def convert(
    source: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="Weights of either form.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Directory to make; must not exist.")],
    config: Annotated[
        Path | None,
        typer.Option(
            help="From Megatron: a config.json of the model, for instance that of the published weights."
        ),
    ] = None,
    vocabulary: Annotated[
        int | None,
        typer.Option(min=1, help="The tokenizer's size; rows beyond it are padding. [all rows are kept]"),
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(help="From Megatron: directory of the tokenizer files. [the one of --config]"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Convert weights: Hugging Face (published layout) -> Megatron torch_dist, or back. No recipe, no GPU.

    zgcm convert MODEL --output CHECKPOINT: for Megatron's `--load CHECKPOINT --finetune`, any TP, PP and DP.

    zgcm convert CHECKPOINT --config MODEL/config.json --output MODEL2: the newest iteration, or name one.

    Weights stay bit for bit the same. The published embedding has 155,136 rows, training had 154,880:
    `--vocabulary 154880` trims the padding for Megatron; back, rows are padded to config.json's vocab_size.
    """
    import json

    to_hub = not (source / "config.json").is_file()
    if not source.is_dir():
        raise ZgcmError("There is no such directory", where=str(source), hint="correct the path")
    if to_hub and config is None:
        raise ZgcmError(
            "A Megatron checkpoint does not say all of its model, so --config must",
            where=str(source),
            found="no config.json in it, so no Hugging Face weights, and no --config",
            hint="zgcm convert CHECKPOINT --config MODEL/config.json --output DIR",
        )
    from zgcm.model.conversion import to_huggingface, to_megatron

    if config is None or not to_hub:
        done = to_megatron(source, output, vocabulary)
        trimmed = done["rows_before"] - done["rows"]
        rows = f"{done['rows']:,} rows of vocabulary" + (
            f", {trimmed:,} of padding trimmed" if trimmed else ""
        )
    else:
        done = to_huggingface(source, output, config, vocabulary, tokenizer)
        rows = f"{done['rows']:,} rows of vocabulary in {done['dtype']}"
    typer.echo(
        json.dumps(done, sort_keys=True)
        if as_json
        else f"{output}: {done['parameters']:,} parameters, {rows}"
    )
