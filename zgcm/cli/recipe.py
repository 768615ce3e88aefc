"""The verbs about the recipe itself: `check`, `id`, and the generated files `schema` and `keys`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from zgcm.cli.app import app
from zgcm.cli.opened import Opened, recipe_verb
from zgcm.errors import ZgcmError

CheckOption = Annotated[bool, typer.Option("--check", help="Write nothing; fail when the file has drifted.")]


@recipe_verb()
def check(opened: Opened) -> None:
    """Validate a recipe and say what it amounts to: parameters, and for each stage steps, tokens, ranks.

    Every wrong key and every contradiction is listed at once, with file and line. Nothing is read but the
    recipe and the locks of its sources; nothing is written.
    """
    from zgcm.report.recipe import summary, text

    facts = summary(opened.recipe)
    opened.say(facts, text(facts))


@recipe_verb("id")
def identity(
    opened: Opened,
    step: Annotated[
        str,
        typer.Argument(
            metavar="STEP",
            help="raw, clean, fingerprint, tokenizer, index, mix, train, adopt, export, rl; or a stage.",
        ),
    ] = "",
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the source, mix or stage.")] = "",
) -> None:
    """Print a step's recipe_id and what it is made of: its settings and the ids that it builds on.

    Two recipes with the same id make the same result from the same data. Without a step, every id is listed.
    Examples: zgcm id midtrain_64k, zgcm id clean demo_code
    """
    from zgcm.identity import basis, digest, recipe_id, stage_step, steps

    loaded = opened.recipe
    known = steps(loaded)
    if not step:
        ids = {f"{one}:{of}" if of else one: recipe_id(loaded, one, of) for one, of in known}
        opened.say(ids, _columns(ids))
        return
    if not name and step in loaded.stages:
        step, name = stage_step(loaded, step), step
    if (step, name) not in known:
        names = [of for one, of in known if one == step]
        raise ZgcmError(
            f"The recipe {loaded.name} has no step {' '.join((step, name)).strip()!r}",
            expected=f"{step} " + ", ".join(names)
            if names
            else ", ".join(dict.fromkeys(s for s, _ in known)),
            hint="zgcm id lists every step; a stage may stand alone: zgcm id STAGE",
        )
    made_of = basis(loaded, step, name)
    lines = [
        f"{digest(made_of)}  {step} {name}".rstrip() + f", version {made_of['version']}",
        "built on\n" + _columns(made_of["built_on"], "  ") if made_of["built_on"] else "built on nothing",
        "settings\n" + _columns(_flat(made_of["settings"]), "  "),
    ]
    opened.say({"recipe_id": digest(made_of), "basis": made_of}, "\n".join(lines))


@app.command()
def schema(check: CheckOption = False) -> None:
    """Write config/schema.json, the JSON schema that editors complete and check recipes with."""
    from zgcm.config.docs import SCHEMA_FILE, schema_text

    _write_or_check(SCHEMA_FILE, schema_text(), check, "zgcm schema")


@app.command()
def keys(check: CheckOption = False) -> None:
    """Write docs/recipe.md, the reference of every key: type, default, meaning, identity or execution."""
    from zgcm.config.docs import REFERENCE_FILE, reference_text

    _write_or_check(REFERENCE_FILE, reference_text(), check, "zgcm keys")


def _write_or_check(path: Path, text: str, check: bool, command: str) -> None:
    from zgcm.io import write_text

    current = path.read_text() if path.exists() else ""
    if not check:
        write_text(path, text)
        typer.echo(f"{path}: {'unchanged' if current == text else 'written'}")
        return
    if current != text:
        old, new = current.splitlines(), text.splitlines()
        line = next(
            (i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new))
        )
        raise ZgcmError(
            "A generated file differs from the models in zgcm/config",
            where=f"{path}:{line + 1}",
            hint=f"write it anew with: {command}",
        )
    typer.echo(f"{path}: up to date")


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    """Nested settings as dotted keys, so that each stands on a line of its own."""
    if not isinstance(value, dict) or not value:
        return {path: value}
    return {
        key: item
        for name, below in value.items()
        for key, item in _flat(below, f"{path}.{name}" if path else name).items()
    }


def _columns(pairs: dict[str, Any], indent: str = "") -> str:
    width = max(map(len, pairs), default=0)
    return "\n".join(f"{indent}{key:<{width}}  {value}" for key, value in pairs.items())
