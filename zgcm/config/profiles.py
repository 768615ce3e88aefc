"""Dataset profiles: steps for one dataset, run before those of its stage and category.

A profile is one Python file that ends in `PROFILE = Profile([...])`. A recipe names it by the key `profile`
of a source:

    profile: olmocr                     # registered: a file of that name in zgcm/corpus/profiles
    profile: ./my_profile.py            # a file; `./my_profile.py:OTHER` takes another name from it
    profile: my_profiles.notes:steps    # a module on the Python path or below the checkout

Relative paths and modules are looked for below the checkout (the working directory, for verbs by hand). This
module only finds plug-ins and knows none of them, so it may sit below the floor they are written on.
"""

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from zgcm.config.corpus import CATEGORIES, STAGES, Category, GovernanceStage, Source
from zgcm.errors import ZgcmError
from zgcm.stopping import Interrupted

FOLDER = Path(__file__).parents[1] / "corpus" / "profiles"
DEFAULT_NAME = "PROFILE"


@dataclass(frozen=True)
class Profile:
    """What a profile file defines."""

    steps: Sequence[Callable[..., None]]
    """Called as `step(sample, settings)`, in this order; see zgcm.corpus.sample.Sample."""
    stages: Sequence[GovernanceStage] = STAGES
    """Stages of the sources that may use it."""
    categories: Sequence[Category] = CATEGORIES
    """Categories of the sources that may use it."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Name -> default of every setting its steps read; recipes change them in `cleaning.settings`."""


def registered() -> list[str]:
    """Names of the files in zgcm/corpus/profiles."""
    return sorted(path.stem for path in FOLDER.glob("[a-z]*.py"))


def find_profile(name: str) -> Profile:
    """The profile that a recipe calls `name`. Raises ZgcmError when there is none, or it cannot be loaded."""
    path, attribute = profile_file(name)
    module = _load(name, path, path.stat().st_mtime_ns)
    value = getattr(module, attribute, None)
    if isinstance(value, list | tuple) and value:
        value = Profile(value)
    if isinstance(value, Profile) and (problem := _wrong_part(value)):
        raise ZgcmError(
            "A profile is not made as the program reads it", where=f"{path}:{attribute}", found=problem,
            expected="steps: a list of functions step(sample, settings); stages, categories: lists of names; "
            "settings: name -> default", hint="correct it; docs/profiles.md has an example",
        )  # fmt: skip
    if isinstance(value, Profile):
        return value
    near = [key for key, item in vars(module).items() if isinstance(item, Profile)]
    raise ZgcmError(
        "This name is no profile", where=f"{path}:{attribute}",
        found="nothing" if value is None else f"a {type(value).__name__}",
        expected="a Profile of functions step(sample, settings), or a list of such functions",
        hint=f"write {name.partition(':')[0]}:{near[0]}" if near else f"end the file with {DEFAULT_NAME} = …",
    )  # fmt: skip


def _wrong_part(profile: Profile) -> str:
    """What of a profile is of another kind; a step that is a generator or a coroutine would do nothing."""
    for name in ("steps", "stages", "categories"):
        if not isinstance(value := getattr(profile, name), list | tuple):
            return f"{name}: a {type(value).__name__}"
    for step in profile.steps:
        if not inspect.isfunction(step):
            return f"a step that is a {type(step).__name__}"
        if inspect.isgeneratorfunction(step) or inspect.iscoroutinefunction(step):
            return f"{step.__name__} holds yield or is async, so that calling it does nothing"
    if not isinstance(profile.settings, Mapping) or not all(isinstance(key, str) for key in profile.settings):
        return f"settings: {str(profile.settings)[:80]}"
    return ""


def profile_problems(source: Source) -> Iterator[str]:
    """Why a source cannot use its profile: there is none, it does not load, or it is made for others."""
    if source.profile is None:
        return
    try:
        profile = find_profile(source.profile)
    except ZgcmError as error:
        yield error.paragraph()
        return
    for key, found, allowed in (
        ("stage", source.stage, profile.stages),
        ("category", source.category, profile.categories),
    ):
        if found not in allowed:
            yield f"{source.profile} is for {key} {' or '.join(allowed)}; found {key}: {found}"


def profile_identity(name: str) -> Any:
    """What of a profile decides a result: the bytes of its file, wherever it lies, and the name in it.

    A profile that does not exist is its own name: recipes that name it are refused before anything runs.
    """
    try:
        path, attribute = profile_file(name)
        return {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "name": attribute}
    except (ZgcmError, OSError):
        return name


def profile_file(name: str) -> tuple[Path, str]:
    """The file of a profile and the name to take from it. Raises ZgcmError when there is no such file."""
    place, _, attribute = name.partition(":")
    if place.endswith(".py") or "/" in place:
        path = _base() / place
        if path.is_file():
            return path, attribute or DEFAULT_NAME
        raise ZgcmError("No such profile file", where=str(path), found=f"profile: {name}", hint="correct it")
    if "." in place or attribute:
        return _module_file(place, name), attribute or DEFAULT_NAME
    if place in registered():
        return FOLDER / f"{place}.py", DEFAULT_NAME
    near = difflib.get_close_matches(place, registered(), n=1)
    raise ZgcmError(
        "There is no such profile", found=name,
        expected=f"{', '.join(registered())}, or a path like ./mine.py",
        hint=f"did you mean {near[0]}?" if near else "",
    )  # fmt: skip


def _base() -> Path:
    return Path(os.environ.get("ZGCM_CHECKOUT") or ".").absolute()


def _module_file(module: str, name: str) -> Path:
    """Where a dotted module lies. The checkout comes last on the path, so it hides no installed package."""
    if (base := str(_base())) not in sys.path:
        sys.path.append(base)
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        spec = None
    except Exception as error:  # the package's own __init__
        raise _unloadable(error, Path(module)) from error
    if spec is not None and spec.origin and spec.has_location:
        return Path(spec.origin)
    raise ZgcmError(
        "No such module", found=f"profile: {name}", expected=f"{module.replace('.', '/')}.py below {base}",
        hint="write module:NAME, or the path of a file, ./like_this.py",
    )  # fmt: skip


@cache
def _load(name: str, path: Path, _mtime_ns: int) -> ModuleType:
    """Run the file as a module. One of a package keeps its package, so relative imports work."""
    place = name.partition(":")[0]
    module = place if "." in place and "/" not in place and not place.endswith(".py") else ""
    if path.parent == FOLDER:
        module = f"zgcm.corpus.profiles.{path.stem}"
    try:
        if module:
            return importlib.import_module(module)
        spec = importlib.util.spec_from_file_location(f"zgcm_profile_{path.stem}", path)
        assert spec is not None
        loaded = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = loaded  # dataclasses look their module up
        # Not by the loader: bytecode of another file of the same second and size would pass for this one's.
        exec(compile(path.read_bytes(), str(path), "exec"), loaded.__dict__)
        return loaded
    except Interrupted:
        raise
    except (Exception, SystemExit) as error:  # whatever a user's file raises is the user's to read
        raise _unloadable(error, path) from error


def _unloadable(error: BaseException, path: Path) -> ZgcmError:
    return ZgcmError(
        "A profile cannot be loaded", where=line_of(error, path), found=f"{type(error).__name__}: {error}",
        hint="run the file with Python and mend it",
    )  # fmt: skip


def line_of(error: BaseException, path: Path | str) -> str:
    """`file:line` where a profile's own file raised, the file alone when the error arose elsewhere."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    trace, line = error.__traceback__, 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"{path}:{line}" if line else str(path)
