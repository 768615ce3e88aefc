"""`zgcm rl STAGE`: train one GRPO stage."""

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
def rl(
    stage: str = typer.Argument(help="An RL stage of the recipe, for instance rl_math."),
    recipe: RecipeOption = DEFAULT_RECIPE,
    results: ResultsOption = DEFAULT_RESULTS,
    as_json: JsonOption = False,
) -> None:
    """Train a policy with GRPO: vLLM samples, verifiers reward, a torch learner updates.

    Reads results/export/INIT/ and writes results/STAGE/: runs/RUN_ID/ (reward.jsonl, speed.jsonl,
    evaluations/, policies/, recover/), evaluations/version_NNN.json and, last, done. Killed, it continues
    from the last step with the same command. One line a step goes to stderr.
    """
    from zgcm.rl.run import run_stage

    loaded, layout = open_recipe(recipe, results)
    done = run_stage(loaded, layout, stage)
    if as_json:
        print(json.dumps(done))
        return
    first, last = done["evaluations"][0], done["evaluations"][-1]
    typer.echo(
        f"{stage}: {done['steps']} steps, held-out reward {first['mean_raw_reward']:.3f} -> "
        f"{last['mean_raw_reward']:.3f} ({last['completions']} completions), policy {done['policy']}"
    )
