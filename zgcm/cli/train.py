"""`zgcm train STAGE`: train one stage of the recipe with megatron-core."""

import json
import shlex
from typing import Annotated

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
def train(
    stage: Annotated[str, typer.Argument(help="A stage of kind pretrain or sft, for instance pretrain_1t.")],
    recipe: RecipeOption = DEFAULT_RECIPE,
    results: ResultsOption = DEFAULT_RESULTS,
    print_argv: Annotated[
        bool,
        typer.Option("--print-argv", help="Print megatron-core's options and stop; needs no data, no GPU."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Train a stage, or continue it from its last whole checkpoint.

    The same command starts, resumes after a crash, and does nothing more once the stage is finished.
    SIGTERM or SIGUSR2 make it save and stop. Losses of every iteration: results/STAGE/runs/RUN/loss.jsonl.
    """
    loaded, layout = open_recipe(recipe, results)
    if print_argv:
        show_argv(loaded, layout, stage, as_json)
        return
    from zgcm.train.run import train as run_train

    done = run_train(loaded, layout, stage)
    if as_json:
        print(json.dumps(done))
        return
    typer.echo(
        f"{stage}: {done['iteration']} iterations, {done['consumed_tokens']:,} tokens, "
        f"loss {done['first_loss']:.3f} -> {done['final_loss']:.3f}, {results / done['checkpoint']}"
    )


def show_argv(recipe, layout, stage: str, as_json: bool) -> None:  # type: ignore[no-untyped-def]
    from zgcm.train.arguments import megatron_argv, plan, train_stage

    options = megatron_argv(recipe, layout, stage, layout.runs(stage) / "RUN_ID", plan(recipe, layout, stage))
    if as_json:
        print(json.dumps([part for option in options for part in option]))
        return
    for mix in train_stage(recipe, stage).mix:
        if recipe.mixes[mix].assumed:
            print(f"# mix {mix}: its weights were never published; these are assumed")
    for option in options:
        print(shlex.join(option))
