"""`zgcm train STAGE`: train one stage of the recipe with megatron-core."""

import json
import shlex
from typing import Annotated

import typer

from zgcm.cli.opened import Opened, recipe_verb


@recipe_verb()
def train(
    opened: Opened,
    stage: Annotated[str, typer.Argument(help="A stage of kind pretrain or sft, for instance pretrain_1t.")],
    print_argv: Annotated[
        bool,
        typer.Option("--print-argv", help="Print megatron-core's options and stop; needs no data, no GPU."),
    ] = False,
) -> None:
    """Train a stage, or continue it from its last whole checkpoint.

    The same command starts, resumes after a crash, and does nothing more once the stage is finished.
    SIGTERM or SIGUSR2 make it save and stop. Losses of every iteration: results/STAGE/runs/RUN/loss.jsonl.
    """
    if print_argv:
        show_argv(opened, stage)
        return
    if opened.recipe.preflight:
        from zgcm.preflight.report import require

        require(opened.recipe, opened.layout)
    from zgcm.train.run import train as run_train

    done = run_train(opened.recipe, opened.layout, stage)
    opened.say(
        done,
        f"{stage}: {done['iteration']} iterations, {done['consumed_tokens']:,} tokens, "
        f"loss {done['first_loss']:.3f} -> {done['final_loss']:.3f}, {opened.results / done['checkpoint']}",
    )


def show_argv(opened: Opened, stage: str) -> None:
    from zgcm.train.arguments import megatron_argv, plan, train_stage

    recipe, layout = opened.recipe, opened.layout
    options = megatron_argv(recipe, layout, stage, layout.runs(stage) / "RUN_ID", plan(recipe, layout, stage))
    if opened.as_json:
        print(json.dumps([part for option in options for part in option]))
        return
    for mix in train_stage(recipe, stage).mix:
        if recipe.mixes[mix].assumed:
            print(f"# mix {mix}: its weights were never published; these are assumed")
    for option in options:
        print(shlex.join(option))
