"""`zgcm status`: how far each stage is, and why a finished one is stale."""

from zgcm.cli.opened import Opened, recipe_verb


@recipe_verb()
def status(opened: Opened) -> None:
    """State of every stage: done, running (step of total, loss), interrupted, stopped, stale or waiting.

    Reads files only; safe at any time, also beside a running pipeline. A stale stage names the recipe keys
    that changed since it was made. Changed raw data is not looked at here: `zgcm run -n` tells.
    """
    from zgcm.rundir.stamp import check_stamp
    from zgcm.status import last_value, stage_states

    check_stamp(opened.layout.stamp, opened.recipe.name)
    rows = stage_states(opened.recipe, opened.layout)
    lines = []
    widest = max(len(row["stage"]) for row in rows)
    for row in rows:
        total = "?" if row["steps"] is None else f"{row['steps']:,}"
        steps = f"{row['step']:,} of {total}" if row["run_id"] else f"{total} step{'s' * (total != '1')}"
        line = f"{row['stage']:<{widest}}  {row['state']:<11}  {steps:>18}  {last_value(row):<14}"
        lines.append(f"{line}  {row['detail']}".rstrip())
    done = sum(row["state"] == "done" for row in rows)
    where = opened.results if opened.results.is_dir() else f"{opened.results}, which does not exist"
    lines.append(f"{opened.recipe.name}: {done} of {len(rows)} stages done in {where}")
    if not opened.layout.stamp.exists():
        lines.append(
            "Nothing has run here yet. With the same options zgcm run begins; zgcm run -n says with what"
        )
    opened.say(rows, "\n".join(lines))
