"""`zgcm reward math|code|if FILE`: score completions by hand, with the rewards of training."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from zgcm.cli.app import JsonOption, app

reward_app = typer.Typer(
    no_args_is_help=True, help="Score completions of yours with the rewards of training."
)
app.add_typer(reward_app, name="reward")

FileArgument = Annotated[
    Path,
    typer.Argument(metavar="FILE.jsonl", help="Rows with a prompt's fields (docs/rl.md) and `completion`."),
]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Where the scores go.", show_default="FILE.rewards.jsonl"),
]
WorkersOption = Annotated[int | None, typer.Option(min=1, help="Verifier processes. [all cores]")]
SpecialOption = Annotated[
    list[str] | None,
    typer.Option(
        "--special-token", help="Removed from answers; repeat for several.", show_default="<|endoftext|>"
    ),
]


@reward_app.command("math")
def math_command(
    file: FileArgument,
    output: OutputOption = None,
    tolerance: Annotated[
        float, typer.Option(min=0, max=0.5, help="Relative error forgiven in decimals; 0 is strict.")
    ] = 0.0,
    timeout: Annotated[
        float, typer.Option(min=0.1, max=86400, help="Seconds for one answer against one label.")
    ] = 8.0,
    workers: WorkersOption = None,
    special_token: SpecialOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score mathematics: 1 when the visible answer equals any of the row's `answers`, else 0.

    Writes one line a row: sample_id, reward, answer (what was compared) and reason: `equal: LABEL`,
    `not equal`, `not judged: timeout`, `no </think>`, `empty answer`.
    """
    from zgcm.rl.rewards.byhand import math_scorer, score_file
    from zgcm.rl.rewards.pool import verifier_pool

    with verifier_pool(workers or len(os.sched_getaffinity(0)), timeout, tolerance) as pool:
        scorer = math_scorer(pool, special_token or ["<|endoftext|>"])
        _say(score_file(file, _output(file, output), "math", scorer, _progress()), as_json)


@reward_app.command("code")
def code_command(
    file: FileArgument,
    assets: Annotated[Path, typer.Option("--assets", help="Tests, as `zgcm prompts convert` writes them.")],
    output: OutputOption = None,
    max_tests: Annotated[int, typer.Option(min=1, max=64, help="Tests of one row that run.")] = 8,
    timeout: Annotated[float, typer.Option(min=0.1, max=10, help="Seconds for one test.")] = 2.0,
    slots: Annotated[int | None, typer.Option(min=1, help="Programs at a time. [all cores]")] = None,
    special_token: SpecialOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score programs: the share of the row's tests that the visible answer's program passes.

    Runs them in a sandbox of its own, attested first. Writes one line a row: sample_id, reward, answer (the
    program) and reason: `all passed`, `not passed: 2 of 8, timeout`, `no program`, `no </think>`,
    `empty answer`.
    """
    from zgcm.rl.rewards.byhand import code_scorer, score_file
    from zgcm.rl.sandbox.assets import check
    from zgcm.rl.sandbox.attest import attested_sandbox

    check(assets, {})
    at_a_time = slots or len(os.sched_getaffinity(0))
    with attested_sandbox(at_a_time, secrets=(assets.resolve(),)) as (judge, _):
        scorer = code_scorer(judge, assets, max_tests, timeout, special_token or ["<|endoftext|>"])
        _say(score_file(file, _output(file, output), "code", scorer, _progress()), as_json)


@reward_app.command("if")
def instruction_command(
    file: FileArgument,
    output: OutputOption = None,
    open_instruct: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY",
            help="A clone of Open-Instruct, whose checkers judge.",
            show_default="the checkers that ship in lm-eval",
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.1, max=86400, help="Seconds for all checkers of one answer.")
    ] = 8.0,
    workers: WorkersOption = None,
    special_token: SpecialOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score instruction following: the share of the row's `ifeval_spec` that the visible answer satisfies.

    Writes one line a row: sample_id, reward, answer and reason: `all satisfied`, which constraints are not,
    or `not judged: timeout`. Every constraint is checked before the first row is scored. A checker that fails
    is an error. With --open-instruct, what a recipe says of these checkers comes first.
    """
    from zgcm.rl.rewards.byhand import instruction_scorer, score_file
    from zgcm.rl.rewards.pool import verifier_pool
    from zgcm.rl.rewards.registry import Checkout

    checkout = None
    if open_instruct is not None:
        checkout = Checkout.of(open_instruct.absolute())
        keys = f"{{checkout: {open_instruct}, sha256: '{checkout.sha256}'}}"
        typer.echo(f"In a recipe: reward: {{open_instruct: {keys}}}", err=True)
    with verifier_pool(workers or len(os.sched_getaffinity(0)), timeout, 0.0, ["if"], checkout) as pool:
        scorer = instruction_scorer(pool, special_token or ["<|endoftext|>"])
        _say(score_file(file, _output(file, output), "if", scorer, _progress(), checkout), as_json)


def _output(file: Path, output: Path | None) -> Path:
    return output or file.with_name(f"{file.name.removesuffix('.jsonl')}.rewards.jsonl")


def _progress() -> Callable[[str], None]:
    return lambda line: typer.echo(line, err=True)


def _say(done: dict[str, Any], as_json: bool) -> None:
    reasons = ", ".join(f"{count} {reason}" for reason, count in done["reasons"].items())
    line = f"{done['output']}: {done['rows']} rows, mean reward {done['mean_reward']:.3f} ({reasons})"
    typer.echo(json.dumps(done, sort_keys=True) if as_json else line)
