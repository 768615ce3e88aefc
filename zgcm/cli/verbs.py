"""Registers every verb by importing the modules that define them, in the order `zgcm --help` lists them."""

from zgcm.cli import recipe, run  # noqa: F401
