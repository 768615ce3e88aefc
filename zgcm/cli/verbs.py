"""Registers every verb by importing the modules that define them."""

from zgcm.cli import (  # noqa: F401
    corpus,
    export,
    plan,
    preflight,
    profile,
    recipe,
    report,
    rl,
    run,
    status,
    tokens,
    train,
)
