"""Which of the engines' optional packages are here. None is imported."""

import importlib.util

FLASH_2 = ("flash_attn",)
FLASH_3 = ("flash_attn_3.flash_attn_interface", "flash_attn_interface")
"""Where releases of FlashAttention-3 put their functions."""


def is_installed(*modules: str) -> bool:
    """Whether any of these modules is."""
    return any(_found(module) for module in modules)


def _found(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it
        return False
