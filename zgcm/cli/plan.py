"""`zgcm plan`: what will run and what it costs, before it runs."""

from typing import Annotated, Any

import typer

from zgcm.cli.opened import Opened, recipe_verb

HEADINGS = (
    *("stage", "state", "steps", "seq", "tokens", "GFLOP/token", "(full attention)"),
    *("GPUs", "tokens/s/GPU", "GPU-hours", "days", "checkpoints"),
)


@recipe_verb()
def plan(
    opened: Opened,
    tflops_per_gpu: Annotated[
        float | None,
        typer.Option(min=1e-9, help="Assumed model TFLOP/s of one GPU, windows honoured. [published: 468]"),
    ] = None,
    tokens_per_second_per_gpu: Annotated[
        float | None,
        typer.Option(min=1e-9, help="Assumed rate of one GPU in every stage; wins over TFLOP/s."),
    ] = None,
) -> None:
    """Per stage: steps, tokens, FLOPs, GPU-hours, nodes and disk; assumed mixture weights are flagged.

    Needs no data, GPU or network. GFLOP/token honours sliding windows; beside it stands the published code's
    count, which charges full attention on every layer. Time rests on the assumption that is printed.
    """
    from zgcm.plan import Assumption, cost_plan

    rate = {} if tflops_per_gpu is None else {"tflops": tflops_per_gpu}
    costs = cost_plan(
        opened.recipe, opened.layout, Assumption(tokens_per_second=tokens_per_second_per_gpu, **rate)
    )
    opened.say(costs, render(costs))


def render(costs: dict[str, Any]) -> str:
    """The plan as text: a table of stages, one of mixes, the totals, and what was assumed."""
    from zgcm import numbers
    from zgcm.terminal import aligned, wrapped

    total, left = costs["totals"], costs["totals"]["to_run"]
    table = [HEADINGS, *(stage_words(row) for row in costs["stages"])]
    lines = aligned(table, right=range(2, len(HEADINGS) - 1))
    for row in costs["stages"]:
        if "adopted" in row:
            lines.append(f"{row['stage']}: {row['why'] or 'adopted: ' + row['adopted']}")
        if "responses" in row:
            limit = numbers.count(row["max_response_tokens"])
            lines.append(
                f"{row['stage']}: {row['responses']:,} responses of at most {limit} tokens in all; "
                "their length decides the GPU-hours, which are not estimated"
            )
        if "measured_samples" in row:
            asked = row["measured_prompts"]
            each = "each training prompt" if asked is None else f"each of {asked:,} training prompts"
            lines.append(
                f"{row['stage']}: before that {row['measured_samples']} responses to {each}, to choose"
            )
    mixes = [
        (row["mix"], numbers.count(row["tokens"]), str(row["shards"]), numbers.byte_count(row["disk_bytes"]))
        + (("weights assumed, not published",) if row["assumed"] else ("",))
        for row in costs["mixes"]
    ]
    lines += ["", *aligned([("mix", "tokens", "shards", "disk", ""), *mixes], right={1, 2, 3})]
    trained = [row for row in costs["stages"] if "seq_length" in row]
    hours = f"{total['gpu_hours']:,.0f} GPU-hours, {total['hours'] / 24:.1f} days one after the other"
    if not total["gpu_hours"]:
        asked = any(row["gpus"] for row in trained)
        hours = "no time known" if asked else "no GPUs asked for, so no time is estimated"
    lines += [
        "",
        f"All training stages: {numbers.count(total['tokens'])} tokens, {total['flops']:.3g} FLOP, "
        f"{hours}, {numbers.byte_count(total['disk_bytes'])} of checkpoints",
    ]
    if unknown := [row["stage"] for row in trained if row["steps"] is None]:
        lines.append(f"Without {', '.join(unknown)}: how long that is, its packed data will say")
    if total["gpu_hours"]:
        lines.append(f"Still to run: {left['gpu_hours']:,.0f} GPU-hours, {left['hours'] / 24:.1f} days")
        lines.append(f"Assumed: {costs['assumption']}")
    return "\n".join(wrapped("\n".join(lines)))


def stage_words(row: dict[str, Any]) -> tuple[str, ...]:
    from zgcm import numbers

    steps = "?" if row["steps"] is None else f"{row['steps']:,}"
    gpus = str(row["gpus"]) if row["gpus"] else "–"
    if "seq_length" not in row:
        return row["stage"], row["state"], steps, "–", "–", "–", "–", gpus, "–", "–", "–", "–"
    rate = numbers.count(row["tokens_per_second_per_gpu"])
    known = row["gpu_hours"] is not None
    kept = "?" if row["checkpoints_kept"] is None else str(row["checkpoints_kept"])
    return (
        row["stage"],
        row["state"],
        steps,
        numbers.context(row["seq_length"]),
        numbers.count(row["tokens"]),
        giga(row["flops_per_token"]),
        giga(row["flops_per_token_full"]),
        gpus,
        rate,
        f"{row['gpu_hours']:,.0f}" if known else "–",
        f"{row['hours'] / 24:.1f}" if known else "–",
        f"{kept} × {numbers.byte_count(row['checkpoint_bytes'])}",
    )


def giga(flops: float) -> str:
    return f"{flops / 1e9:.2f}" if flops >= 1e9 else f"{flops / 1e9:.4f}"
