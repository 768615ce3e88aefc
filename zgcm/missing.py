"""Which files a recipe names that are not there, and what to do about each, for `zgcm check` and `run`.

for file in missing_files(recipe): print(file.key, file.path, file.hint)

Paths are looked for as `zgcm.config.places` says; raw text of demo and hub sources is made, so never missing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from zgcm.config.recipe import Recipe
from zgcm.config.rl import FilePrompts, RLStage
from zgcm.config.stages import AdoptedStage
from zgcm.errors import ZgcmError
from zgcm.layout import PACKED_PARTS

SHOWN = 5


@dataclass(frozen=True)
class Missing:
    """`blocks`: nothing can be planned without it. Other files are asked for by the step that reads them."""

    key: str
    path: str
    hint: str
    blocks: bool = False


def missing_files(recipe: Recipe) -> list[Missing]:
    """In the recipe's order."""
    return [file for file in _named(recipe) if not Path(file.path).exists()]


def require_files(recipe: Recipe) -> None:
    """Raises ZgcmError naming the files that keep anything from being planned."""
    absent = list({file.path: file for file in reversed(missing_files(recipe)) if file.blocks}.values())[::-1]
    if not absent:
        return
    more = f", and {len(absent) - SHOWN} more" if len(absent) > SHOWN else ""
    raise ZgcmError(
        "Files that the recipe lists are not there",
        found="; ".join(f"{file.key}: {Path(file.path).absolute()}" for file in absent[:SHOWN]) + more,
        hint="; ".join(dict.fromkeys(file.hint for file in absent)),
    )


def _named(recipe: Recipe) -> Iterator[Missing]:
    """Every file that the recipe names."""
    bring = "`files` are looked for below --directory; correct the paths, or bring the files"
    compare = (
        "evaluation files are looked for below --directory, then in the checkout; correct the paths, "
        "or bring the files"
    )
    mixed = {source for mix in recipe.mixes.values() for source in mix.sources}
    for name, source in recipe.sources.items():
        if source.kind == "files":
            yield from (Missing(f"sources.{name}.files", file, bring, True) for file in source.files)
        if (lock := getattr(source, "lock", None)) is not None:
            hint = f"write it once with: zgcm sources lock {name}"
            yield Missing(f"sources.{name}.lock", lock, hint, blocks=name in mixed)
    if recipe.tokenizer.kind == "import":
        hint = "bring the directory of the tokenizer's files, or correct the path"
        yield Missing("tokenizer.path", recipe.tokenizer.path, hint)
    for name, mix in recipe.mixes.items():
        against = mix.decontaminate.against if mix.decontaminate else []
        yield from (Missing(f"mixes.{name}.decontaminate.against", file, compare, True) for file in against)
        part = f"_{PACKED_PARTS[0]}" if mix.kind == "packed" else ""
        hint = "a prefix is a path without .bin and .idx; bring the token files, or correct it"
        yield from (Missing(f"mixes.{name}.prefixes", f"{one}{part}.idx", hint) for one in mix.prefixes)
    for name, stage in recipe.stages.items():
        if isinstance(stage, AdoptedStage):
            hint = "bring the weights, or correct the path"
            yield Missing(f"stages.{name}.path", stage.path, hint)
        if isinstance(stage, RLStage):
            yield from _of_rl(f"stages.{name}", stage)


def _of_rl(at: str, stage: RLStage) -> Iterator[Missing]:
    if isinstance(stage.prompts, FilePrompts):
        hint = "bring the prompts (zgcm prompts convert makes them), or correct the path"
        for key in ("train", "valid", "assets"):
            if (path := getattr(stage.prompts, key)) is not None:
                yield Missing(f"{at}.prompts.{key}", path, hint)
    if (token := stage.reward.sandbox.token_file) is not None:
        yield Missing(f"{at}.reward.sandbox.token_file", token, "write the service's token there")
    if (checkers := stage.reward.open_instruct) is not None:
        hint = "clone allenai/open-instruct there, or correct the path"
        yield Missing(f"{at}.reward.open_instruct.checkout", checkers.checkout, hint)
