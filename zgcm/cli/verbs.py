"""Registers every verb by importing the modules that define them, and orders them for `zgcm --help`."""

from typing import TYPE_CHECKING

from zgcm.cli import (  # noqa: F401
    adopt,
    convert,
    corpus,
    export,
    plan,
    preflight,
    profile,
    prompts,
    recipe,
    report,
    reward,
    rl,
    run,
    sandbox,
    status,
    tokens,
    train,
)
from zgcm.cli.app import Verb, app

if TYPE_CHECKING:
    from typer.models import CommandInfo

DATA = "Data: a shard or a mix of the recipe; most also take files of yours"
PANELS = {
    "Run and see": ("run", "check", "plan", "status", "report", "preflight", "id"),
    DATA: (
        *("raw", "clean", "fingerprint", "minhash", "contamination", "tokenizer", "index"),
        *("dedup", "mix", "gather", "pack", "pack-summary"),
    ),
    "Training": ("train", "adopt", "export"),
    "Reinforcement learning": ("pass-rates", "difficulty", "rl"),
    "Plain files, without a recipe": ("profile", "decontaminate", "inspect", "convert"),
    "Generated files of this repository": ("schema", "keys"),
}
"""Heading -> verbs, in the order of the help. (Groups like `sources` come last.)"""
GROUPS = {
    "sources": DATA,
    "prompts": "Reinforcement learning",
    "reward": "Reinforcement learning",
    "sandbox": "Reinforcement learning",
}


def arrange() -> None:
    order = [verb for verbs in PANELS.values() for verb in verbs]
    app.registered_commands.sort(key=lambda command: order.index(_name(command)))
    for command in app.registered_commands:
        command.cls = Verb
        command.rich_help_panel = next(panel for panel, verbs in PANELS.items() if _name(command) in verbs)
    for group in app.registered_groups:
        group.rich_help_panel = GROUPS[str(group.name)]
        assert group.typer_instance is not None
        for command in group.typer_instance.registered_commands:
            command.cls = Verb


def _name(command: "CommandInfo") -> str:
    assert command.callback is not None
    return command.name or command.callback.__name__


arrange()
