"""What the verbs on plain files share: which files, what each output is called, what is done already."""

import contextlib
import fcntl
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xxhash

from zgcm.errors import ZgcmError
from zgcm.io import canonical_json, read_json, sha256_bytes
from zgcm.records import FORMATS, Record, read_numbered, read_records, record_format
from zgcm.records.find import find_files

if TYPE_CHECKING:
    from zgcm.config.corpus import Mix
    from zgcm.config.recipe import Recipe

BLOCK = 1 << 22
REPORT_SECONDS = 5.0
WAIT_SECONDS = 5.0
"""For another run that writes the same: of a killed one workers may live on for a moment."""
Summary = dict[str, Any]


def expand(inputs: Sequence[str]) -> list[Path]:
    """Files, the readable files of directories, and those that match patterns, in the order given."""
    found = find_files(inputs)
    if not found:
        raise ZgcmError(
            "No files to read", found=" ".join(inputs) or "no paths", expected=", ".join(FORMATS),
            hint="name files, a directory, or a quoted pattern",
        )  # fmt: skip
    return found


def require_records(paths: Sequence[Path]) -> None:
    """Raises ZgcmError when all files together hold no record. Single ones may: a filter can empty a file."""
    if not any(True for path in paths for _ in read_records(path)):
        raise ZgcmError(
            "There is no record", where=", ".join(map(str, paths[:3])), expected="at least one JSON object",
            hint="name a file that holds some",
        )  # fmt: skip


def kept_records(path: Path) -> Iterator[Record]:
    """The records of a file that are written out again. Raises ZgcmError for one that would be another then:
    with an integer beyond 64 bits, or a key twice."""
    return (record for _, record in read_numbered(path, checked=True))


def output_names(paths: Sequence[Path]) -> list[str]:
    """What each file's outputs are called: its name without the ending. Raises ZgcmError for two alike."""
    names = [path.name.removesuffix(record_format(path)) for path in paths]
    for position, name in enumerate(names):
        if name in names[:position]:
            raise ZgcmError(
                "Two files would have the same output", where=str(paths[position]),
                found=f"{paths[names.index(name)]} is called {name} too", hint="rename one of them",
            )  # fmt: skip
    return names


def refuse_overwriting(inputs: Sequence[Path], outputs: Iterable[Path]) -> None:
    """Raises ZgcmError when an output would take the place of an input."""
    read = {path.resolve(): path for path in inputs}
    for output in outputs:
        if (path := read.get(output.resolve())) is not None:
            raise ZgcmError(
                "An output would replace its input", where=str(path), hint="choose another --output directory"
            )


@contextlib.contextmanager
def alone(directory: Path, name: str = "run") -> Iterator[None]:
    """One run at a time makes what is called `name` in a directory. The system forgets the lock of a killed
    run; where the file system has no locks nobody is refused. Raises ZgcmError when another run does not end
    soon."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f".{name}.lock"
    descriptor = _locked(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(path: Path) -> int:
    give_up = time.monotonic() + WAIT_SECONDS
    while True:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > give_up:
                os.close(descriptor)
                raise ZgcmError("Another run writes there", where=str(path.parent), found=path.name,
                                hint="wait for it, or choose another --output") from error  # fmt: skip
            time.sleep(0.1)
        except OSError:
            return descriptor
        else:
            with contextlib.suppress(FileNotFoundError):  # the run before may have just removed it
                if os.path.samestat(path.stat(), os.fstat(descriptor)):
                    return descriptor
        os.close(descriptor)


def small_recipe(sources: dict[str, Any], mixes: "dict[str, Mix] | None" = None) -> "Recipe":
    """A recipe of sources and mixes alone: no step on plain files reads anything else of one."""
    from zgcm.config.recipe import Recipe
    from zgcm.config.resources import StepResources

    parts: dict[str, Any] = {"name": "files", "sources": sources, "mixes": mixes or {}}
    return Recipe.model_construct(**parts, step_resources=StepResources())


@contextlib.contextmanager
def in_own_words(place: str, whole: str, option: Callable[[str], str]) -> Iterator[None]:
    """Errors within name the verb's options where the steps name keys of the small recipe.

    `place` is `sources.NAME` or `mixes.NAME`. Where an error names it alone it says `whole`, and for a key
    below it what `option` gives.
    """
    key = re.compile(re.escape(place) + r"(?:\.([a-z_]+))?")

    def own(match: re.Match[str]) -> str:
        return whole if match[1] is None else option(match[1])

    try:
        yield
    except ZgcmError as error:
        parts = {name: key.sub(own, text) for name, text in error.as_dict().items()}
        raise ZgcmError(parts.pop("what"), **parts) from error


def stamp(content: Summary, **settings: Any) -> Summary:
    """Names an output: the input's content and everything that the result depends on."""
    return {"input": content, "settings": sha256_bytes(canonical_json(settings))[:12]}


def content_of(path: Path) -> Summary:
    """What names the content of a file: its size and a digest of its bytes."""
    with path.open("rb") as stream:
        digest = xxhash.xxh3_128()
        while chunk := stream.read(BLOCK):
            digest.update(chunk)
    return {"bytes": path.stat().st_size, "xxh3_128": digest.hexdigest()}


def finished(
    summary: Path, stamped: Summary, outputs: Sequence[Path], kinds: Mapping[str, type] | None = None
) -> Summary | None:
    """The summary of an earlier run with the same input and settings whose outputs are all there; none where
    its values are not of these `kinds`: then somebody has edited it."""
    if not summary.is_file() or not all(path.is_file() for path in outputs):
        return None
    known = read_json(summary)
    if not all(isinstance(known.get(key), kind) for key, kind in (kinds or {}).items()):
        return None
    return known if all(known.get(key) == value for key, value in stamped.items()) else None


def watch(path: Path) -> Callable[..., None]:
    """A function that tells a waiting person, on stderr, how far a long file is: called with the records so
    far, and more to say."""
    started = last = time.monotonic()

    def tell(records: int, more: str = "") -> None:
        nonlocal last
        if (now := time.monotonic()) - last >= REPORT_SECONDS:
            last = now
            rate = records / (now - started)
            print(f"{path}: {records:,} records{more}, {rate:,.0f} records/s", file=sys.stderr)

    return tell
