"""`zgcm prompts convert`: public benchmark files as prompts for RL."""

import json
from pathlib import Path
from typing import Annotated

import typer

from zgcm.cli.app import JsonOption, app
from zgcm.errors import ZgcmError

prompts_app = typer.Typer(no_args_is_help=True, help="Make prompt files for RL.")
app.add_typer(prompts_app, name="prompts")


@prompts_app.callback()
def _verbs() -> None:
    """Keeps `convert` named even while it is the only one."""


@prompts_app.command("convert")
def convert_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON Lines, also .gz or .zst.")],
    form: Annotated[
        str,
        typer.Option("--format", "-f", help="gsm8k, math, humaneval, mbpp or ifeval.", show_default=False),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Prompt file to write.")],
    assets: Annotated[
        Path | None, typer.Option(help="Code: directory of the tests, content-addressed; may hold others.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Benchmark's name, also the start of each sample_id. [FILE's name]")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Convert a benchmark's file to prompt rows, each validated as RL stages do.

    zgcm prompts convert gsm8k.jsonl --format gsm8k --output prompts.jsonl

    zgcm prompts convert HumanEval.jsonl.gz --format humaneval --assets tests --output prompts.jsonl

    Tests of code go to ASSETS/ab/HASH.json.gz, named by the SHA-256 of their content, with manifest.json.
    """
    from zgcm.rl.formats import FORMATS, convert

    if form not in FORMATS:
        raise ZgcmError("No such --format", found=form, expected=", ".join(FORMATS))
    done = convert(file, output, form, assets, name or file.name.split(".")[0])
    tests = f", {done['assets']} sets of tests in {assets}" if done["assets"] else ""
    line = f"{output}: {done['rows']} prompts of the domain {done['domain']}{tests}"
    typer.echo(json.dumps(done, sort_keys=True) if as_json else line)
