"""Registers every verb by importing the modules that define them."""

from zgcm.cli import (  # noqa: F401
    adopt,
    convert,
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
