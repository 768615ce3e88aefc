"""`zgcm preflight`: does this machine do what the recipe needs."""

import textwrap
from typing import Annotated, Any

import typer

from zgcm.cli.opened import Opened, recipe_verb
from zgcm.preflight import PARTS


@recipe_verb()
def preflight(
    opened: Opened,
    only: Annotated[str, typer.Option(help=f"Parts to run, separated by commas: {', '.join(PARTS)}.")] = "",
) -> None:
    """Check machine, storage, network, precision and checkpoints before GPU-weeks depend on them.

    Needs no data. Each part ran (with figures), failed (why), or does not apply (why). A few minutes; writes
    results/preflight.json, and ends with 1 when a part failed. A recipe with `preflight: true` trains only
    after a preflight on the same kind of machine in which nothing failed.
    """
    from zgcm.preflight.report import failures, run_parts
    from zgcm.rundir.stamp import check_stamp
    from zgcm.terminal import wrapped

    check_stamp(opened.layout.stamp, opened.recipe.name)
    names = [name.strip() for name in only.split(",") if name.strip()]
    report = run_parts(opened.recipe, opened.layout, names)
    broken = failures(report)
    last = wrapped(f"{last_line(report, broken)} -> {opened.layout.preflight}")
    opened.say(report, "\n".join([table(report), *last]))
    if broken:
        raise typer.Exit(1)


def table(report: dict[str, Any]) -> str:
    from zgcm.terminal import room

    lines = []
    width = min(room(), 110)
    for name, part in report["parts"].items():
        head = f"{name:<10} {part['status']:<15} {part['seconds']:>5.0f} s  "
        lines += textwrap.wrap(
            part["line"],
            width,
            initial_indent=head,
            subsequent_indent=" " * 12,
            break_on_hyphens=False,
        )
    return "\n".join(lines)


def last_line(report: dict[str, Any], broken: list[str]) -> str:
    from zgcm.numbers import counted
    from zgcm.preflight.report import CHECKS

    if broken:
        return f"preflight failed: {', '.join(broken)}"
    statuses = [part["status"] for part in report["parts"].values()]
    ran, others = statuses.count("ran"), statuses.count("not applicable")
    said = f"{counted(ran, 'part')} ran, {others} do not apply"
    if never := [part for part in CHECKS if part not in report["parts"]]:
        return f"preflight unfinished: {said}; never run here: {', '.join(never)}"
    return f"preflight passed: {said}"
