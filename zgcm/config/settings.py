"""`cleaning.settings`: which settings a source's steps read, their defaults, and what a recipe gets wrong.

A setting that no step reads would be silently without effect, so it is refused when the recipe is loaded.
"""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from zgcm.config.corpus import Category, Cleaning, Source
from zgcm.config.profiles import find_profile
from zgcm.errors import ZgcmError

CATEGORY_SETTINGS: Mapping[Category, Mapping[str, Any]] = {
    "code": {"code_denied_path_parts": ["node_modules/", "vendor/", ".min.js", ".map"]},
    "web": {"web_boilerplate_limit": 4},
    "math": {"math_min_solution_chars": 32},
    "reasoning": {"reasoning_min_chars": 64},
}
"""What the steps of a category read, with the published defaults."""
PRETRAIN_SETTINGS: Mapping[Category, Mapping[str, Any]] = {
    "pdf_ocr": {"pdf_min_chars": 32, "pdf_min_ocr_quality": 0.0},
}
"""The same, of steps that run in pretraining alone."""


def setting_defaults(source: Source) -> dict[str, Any]:
    """Name -> default of every setting that a source may give. Raises ZgcmError when its profile is none."""
    own = CATEGORY_SETTINGS.get(source.category, {})
    early = PRETRAIN_SETTINGS.get(source.category, {}) if source.stage == "pretrain" else {}
    profile = find_profile(source.profile).settings if source.profile is not None else {}
    return {**own, **early, **profile}


def setting_problems(source: Source) -> Iterator[tuple[str, str]]:
    """(setting, what is wrong with it) of a source's `cleaning.settings`; silent while its profile is wrong,
    which is a problem of its own."""
    try:
        defaults = setting_defaults(source)
    except ZgcmError:
        return
    for name, value in source.cleaning.settings.items():
        if name in Cleaning.model_fields:
            yield name, f"it has a key of its own; write cleaning.{name}"
        elif name not in defaults:
            near = difflib.get_close_matches(name, [*defaults, *Cleaning.model_fields], n=1)
            yield (
                name,
                (
                    "no step of this source reads this setting; allowed here: "
                    + (", ".join(sorted(defaults)) or "none")
                    + (f"; did you mean {_place(near[0], defaults)}?" if near else "")
                ),
            )
        elif not _same_kind(value, defaults[name]):
            yield name, f"found {value!r}; expected something like {defaults[name]!r}"


def _place(name: str, defaults: Mapping[str, Any]) -> str:
    return repr(name) if name in defaults else f"the key cleaning.{name}"


def _same_kind(value: Any, default: Any) -> bool:
    if isinstance(default, int | float) and not isinstance(default, bool):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return default is None or isinstance(value, type(default))
