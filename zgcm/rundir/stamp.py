"""The stamp of a results directory: which recipe its artifacts belong to."""

from pathlib import Path

from zgcm.config.recipe import Recipe
from zgcm.errors import ZgcmError
from zgcm.io import read_json, write_json
from zgcm.layout import Layout


def check_stamp(stamp: Path, name: str) -> None:
    """Refuse a results directory that belongs to another recipe. Raises ZgcmError."""
    if not stamp.exists():
        return
    found = read_json(stamp)["name"]
    if found != name:
        raise ZgcmError(
            "These results belong to another recipe",
            where=str(stamp),
            found=found,
            expected=name,
            hint=f"give that recipe's files (-r, --configfile; overlays too), or keep recipes apart: "
            f"`snakemake` and every verb of `zgcm` take --directory runs/{name}",
        )


def own_results(recipe: Recipe, layout: Layout) -> Layout:
    """The results if they are this recipe's, else an empty place: another recipe's stages tell nothing."""
    if not layout.stamp.exists() or read_json(layout.stamp)["name"] == recipe.name:
        return layout
    return Layout(layout.root / f"of-{recipe.name}")


def write_stamp(stamp: Path, name: str, recipe_file: Path) -> None:
    """Stamp the directory with the recipe's name and the file that holds it."""
    write_json(stamp, {"name": name, "recipe": str(recipe_file)})
