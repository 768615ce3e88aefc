"""`zgcm rl STAGE`: train one GRPO stage."""

from typing import Annotated

import typer

from zgcm.cli.opened import Opened, recipe_verb


@recipe_verb()
def rl(
    opened: Opened,
    stage: Annotated[
        str, typer.Argument(metavar="STAGE", help="An RL stage of the recipe, for instance rl_math.")
    ],
) -> None:
    """Train a policy with GRPO: vLLM samples, verifiers reward, a torch learner updates.

    Reads results/export/INIT/ and writes results/STAGE/: runs/RUN_ID/ (reward.jsonl, speed.jsonl,
    evaluations/, policies/, recover/), evaluations/version_NNN.json and, last, done. Killed, it continues
    from the last step with the same command; Ctrl-C or SIGTERM let it finish and save the step. One line a
    step goes to stderr.
    """
    from zgcm.rl.run import run_stage

    done = run_stage(opened.recipe, opened.layout, stage)
    first, last = done["evaluations"][0], done["evaluations"][-1]
    opened.say(
        done,
        f"{stage}: {done['steps']} steps, held-out reward {first['mean_raw_reward']:.3f} -> "
        f"{last['mean_raw_reward']:.3f} ({last['completions']} completions), policy {done['policy']}",
    )
