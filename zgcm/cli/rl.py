"""`zgcm rl STAGE`: train one GRPO stage, or run half of its loop to look at; before it, where the recipe says
so, `pass-rates` and `difficulty`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from zgcm.cli.opened import Opened, recipe_verb
from zgcm.errors import ZgcmError

StageArgument = Annotated[
    str, typer.Argument(metavar="STAGE", help="An RL stage of the recipe, for instance rl_math.")
]


@recipe_verb("pass-rates")
def pass_rates(
    opened: Opened,
    stage: StageArgument,
    shard: Annotated[str, typer.Argument(metavar="SHARD", help="A shard of the prompts: 00000, 00001, ...")],
) -> None:
    """Measure how often the initial policy solves each training prompt of a shard.

    Reads results/export/INIT/ and the stage's prompts, samples `difficulty.samples` responses a prompt with
    one vLLM engine in this process, and writes results/STAGE/difficulty/SHARD-of-SHARDS.parquet. Shards may
    run in any order and on any machine; `zgcm difficulty STAGE` puts them together.
    """
    from zgcm.rl.difficulty import measure_shard

    facts = measure_shard(opened.recipe, opened.layout, stage, shard)
    before = facts["prompts"] - facts["measured"]
    opened.say(
        facts,
        f"{facts['output']}: {facts['passes']:,} of {facts['responses']:,} responses to {facts['prompts']:,} "
        f"prompts pass{_unjudged(facts)}" + (f"; {before:,} prompts measured before" if before else ""),
    )


@recipe_verb()
def difficulty(opened: Opened, stage: StageArgument) -> None:
    """Choose the training prompts of a stage by the pass rates that `zgcm pass-rates` measured.

    Writes results/STAGE/difficulty.parquet (one row a prompt: pass rate, mean tokens, truncated share, kept,
    reason) and results/STAGE/prompts.jsonl, the prompts within difficulty.min_pass_rate and max_pass_rate, on
    which `zgcm rl STAGE` trains.
    """
    from zgcm.rl.difficulty import gather
    from zgcm.rundir.difficulty import in_words

    facts = gather(opened.recipe, opened.layout, stage)
    opened.say(
        facts,
        f"{stage}: {facts['kept']:,} of {facts['prompts']:,} prompts kept, {facts['too_easy']:,} too easy, "
        f"{facts['too_hard']:,} too hard; {in_words(dict(enumerate(facts['prompts_by_passes'])))}"
        f"{_unjudged(facts)}",
    )


def _unjudged(facts: dict[str, Any]) -> str:
    """How many responses count as no pass without a verdict; nothing where there are none."""
    return f"; {facts['not_judged']:,} responses not judged (docs/rl.md)" if facts["not_judged"] else ""


@recipe_verb()
def rl(
    opened: Opened,
    stage: StageArgument,
    rollout_only: Annotated[
        bool,
        typer.Option(
            "--rollout-only",
            help="Sample and reward with the initial policy, train nothing; write a dump of the responses.",
        ),
    ] = False,
    train_only: Annotated[
        Path | None,
        typer.Option(
            metavar="DUMP",
            resolve_path=True,
            help="Update the initial policy with a dump's responses, start no engine; write nothing.",
        ),
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="With --rollout-only: steps to sample.")] = 1,
    output: Annotated[
        Path | None,
        typer.Option(
            resolve_path=True,
            help="With --rollout-only: the dump [default: rollouts.parquet in the run's directory].",
        ),
    ] = None,
) -> None:
    """Train a policy with GRPO: vLLM samples, verifiers reward, a torch learner updates.

    Reads results/export/INIT/ and writes results/STAGE/: runs/RUN_ID/ (reward.jsonl, speed.jsonl,
    evaluations/, policies/, recover/), evaluations/version_NNN.json and, last, done. Killed, it continues
    from the last step with the same command; Ctrl-C or SIGTERM let it finish and save the step. One line a
    step goes to stderr.

    --rollout-only and --train-only run half of the loop, to find out which half is wrong. Neither changes
    the stage's results.
    """
    if rollout_only and train_only is not None:
        raise ZgcmError("--rollout-only and --train-only exclude each other", hint="run one after the other")
    if not rollout_only and (output is not None or steps != 1):
        raise ZgcmError("--steps and --output belong to --rollout-only", hint="leave them out, or add it")
    if rollout_only:
        return _rollout(opened, stage, steps, output)
    if train_only is not None:
        return _train(opened, stage, train_only)

    from zgcm.rl.run import run_stage

    done = run_stage(opened.recipe, opened.layout, stage)
    first, last = done["evaluations"][0], done["evaluations"][-1]
    opened.say(
        done,
        f"{stage}: {done['steps']} steps, held-out reward {first['mean_raw_reward']:.3f} -> "
        f"{last['mean_raw_reward']:.3f} ({last['completions']} completions), policy "
        f"{opened.results / done['policy']}",
    )


def _rollout(opened: Opened, stage: str, steps: int, output: Path | None) -> None:
    from zgcm.rl.debug import rollout_only

    facts = rollout_only(opened.recipe, opened.layout, stage, steps=steps, output=output)
    opened.say(
        facts,
        f"{stage}: {facts['responses']} responses, raw reward {facts['mean_raw_reward']:.3f}, "
        f"{facts['trained_responses']} to train on, in {facts['dump']}",
    )


def _train(opened: Opened, stage: str, path: Path) -> None:
    from zgcm.rl.debug import train_only

    lines = train_only(opened.recipe, opened.layout, stage, path)
    updates = [line for line in lines if line["trained_responses"]]
    opened.say(lines, f"{stage}: {len(updates)} of {len(lines)} steps had something to learn; nothing saved")
