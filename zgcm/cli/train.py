"""`zgcm train STAGE`: train one stage of the recipe with megatron-core, or look before doing so."""

from typing import Annotated, Any

import typer

from zgcm.cli.opened import Opened, recipe_verb
from zgcm.errors import ZgcmError


@recipe_verb()
def train(
    opened: Opened,
    stage: Annotated[
        str,
        typer.Argument(metavar="STAGE", help="A stage of kind pretrain or sft, for instance pretrain_1t."),
    ],
    print_argv: Annotated[
        bool,
        typer.Option("--print-argv", help="Print megatron-core's arguments and stop; needs no data, no GPU."),
    ] = False,
    validate_only: Annotated[
        bool,
        typer.Option(
            "--validate-only",
            help="List everything that would keep it from training, and stop. Exit code 1 if any.",
        ),
    ] = False,
    smoke: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Take the stage's first N steps, print loss and speed, and leave nothing.",
        ),
    ] = None,
) -> None:
    """Train a stage, or continue it from its last whole checkpoint.

    The same command starts, resumes after a crash, and does nothing more once the stage is finished.
    Ctrl-C, SIGTERM or SIGUSR2 make it save and stop, a second Ctrl-C ends it at once. Losses of every
    iteration: results/STAGE/runs/RUN/loss.jsonl.

    Three options look before a run and change nothing. Example: zgcm train sft --validate-only
    """
    if sum((print_argv, validate_only, smoke is not None)) > 1:
        raise ZgcmError(
            "--print-argv, --validate-only and --smoke exclude one another", hint="give one of them"
        )
    if print_argv:
        show_argv(opened, stage)
    elif validate_only:
        show_problems(opened, stage)
    elif smoke is not None:
        show_smoke(opened, stage, smoke)
    else:
        run_to_end(opened, stage)


def run_to_end(opened: Opened, stage: str) -> None:
    from zgcm.preflight.report import require
    from zgcm.report.table import train_facts
    from zgcm.train.run import train as run_train

    if opened.recipe.preflight:
        require(opened.recipe, opened.layout)
    done = run_train(opened.recipe, opened.layout, stage)
    own = train_facts(opened.recipe, opened.layout, stage, done)
    opened.say(
        done,
        f"{stage}: {own_steps(own['steps'], done['iteration'])}, {own['tokens']:,} tokens, "
        f"loss {done['first_loss']:.3f} -> {done['final_loss']:.3f}, {opened.results / done['checkpoint']}",
    )


def own_steps(steps: int, iteration: int) -> str:
    """'200 steps'; of a stage that continues another also Megatron's count, which names its checkpoints."""
    from zgcm.numbers import counted

    return counted(steps, "step") + ("" if steps == iteration else f", to iteration {iteration:,}")


def show_argv(opened: Opened, stage: str) -> None:
    from zgcm.train import printed

    recipe, layout = opened.recipe, opened.layout
    facts = {
        "stage": stage,
        "argv": printed.argv(recipe, layout, stage),
        "assumed": printed.assumed(recipe, layout, stage),
        "beside": printed.beside(recipe, stage),
    }
    opened.say(facts, "\n".join(printed.text(recipe, layout, stage)))


def show_problems(opened: Opened, stage: str) -> None:
    from zgcm.config.load import load_with_contradictions
    from zgcm.train.validate import validate

    recipe, contradictions = load_with_contradictions(opened.paths, opened.elsewhere)
    report = validate(recipe, contradictions, opened.layout, stage)
    opened.say(report, problem_text(report))
    if report["problems"]:
        raise typer.Exit(1)


def problem_text(report: dict[str, Any]) -> str:
    """The problems, a paragraph each; or that there are none, and what the stage will take."""
    from zgcm.numbers import byte_count, count, counted

    name, problems = report["stage"], report["problems"]
    lines = [f"  {found['check']:<8} {found['problem']}" for found in problems]
    lines += [f"  not checked: {what}" for what in report["not_checked"]]
    if report["shards"]:
        lines.append(f"  {counted(report['shards'], 'shard')}, {count(report['tokens'])} tokens")
    if report["iterations"]:
        lines.append(
            f"  {own_steps(report['steps'], report['iterations'])}, with {report['checkpoints']} checkpoints "
            f"of {byte_count(report['checkpoint_bytes'])} at most; {byte_count(report['free_bytes'])} free"
        )
    found = counted(len(problems), "problem") if problems else "ready to train"
    return "\n".join([f"{name}: {found}", *lines])


def show_smoke(opened: Opened, stage: str, steps: int) -> None:
    from zgcm.numbers import count, counted, duration
    from zgcm.train.smoke import smoke

    facts = smoke(opened.recipe, opened.layout, stage, steps)
    speed = "one step says nothing of speed"
    if facts["seconds_per_step"] is not None:
        whole = facts["seconds_per_step"] * facts["stage_steps"]
        speed = (
            f"{duration(facts['seconds_per_step'])} a step, {count(facts['tokens_per_second'])} tokens/s, "
            f"{duration(whole)} for all {facts['stage_steps']:,} steps"
        )
    first, last = facts["losses"][0], facts["losses"][-1]
    opened.say(
        facts,
        f"{stage}: {counted(steps, 'step')}, loss {first:.3f} -> {last:.3f}, {speed}; nothing was saved",
    )
