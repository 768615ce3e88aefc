"""Where the files that a recipe names are looked for.

Raw `files` and a tokenizer to import: below the working directory, which `--directory` chooses. Locks: below
the checkout. Evaluation files: below the working directory, else below the checkout.
"""

from pathlib import Path
from typing import Any


def locate(data: dict[str, Any], checkout: Path) -> dict[str, Any]:
    """The plain data of a recipe, with absolute paths of what lies below the checkout; no identity reads
    them."""
    places = {"sources": _locate_locks, "mixes": _locate_evaluations}
    return data | {key: place(data[key], checkout) for key, place in places.items() if key in data}


def _locate_locks(sources: Any, checkout: Path) -> Any:
    if not isinstance(sources, dict):
        return sources  # the validation says what is wrong with it
    return {
        name: {**source, "lock": str(checkout / source["lock"])}
        if isinstance(source, dict) and isinstance(source.get("lock"), str)
        else source
        for name, source in sources.items()
    }


def _locate_evaluations(mixes: Any, checkout: Path) -> Any:
    if not isinstance(mixes, dict):
        return mixes
    return {name: _locate_against(mix, checkout) for name, mix in mixes.items()}


def _locate_against(mix: Any, checkout: Path) -> Any:
    section = mix.get("decontaminate") if isinstance(mix, dict) else None
    if not isinstance(section, dict) or not isinstance(section.get("against"), list):
        return mix
    files = [
        str(checkout / file) if isinstance(file, str) and not Path(file).exists() else file
        for file in section["against"]
    ]
    return {**mix, "decontaminate": {**section, "against": files}}
