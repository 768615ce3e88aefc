"""Sources that need no data: the Python installation's own code and documentation, and seeded generators.

Deterministic for a given interpreter: files are sorted by path, then shuffled with the source's seed; shard
k of n takes every n-th file, so shards are disjoint and each can be built alone.
"""

import ast
import itertools
import os
import random
import sys
import sysconfig
import tokenize
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from zgcm.config.corpus import DemoSource
from zgcm.corpus import arithmetic, tasks
from zgcm.corpus.planted import plant
from zgcm.errors import ZgcmError
from zgcm.records import Record

MIN_CHARS = 200
"""Shorter files and documentation strings say too little to be documents."""
CODE_CHARS, PROSE_CHARS = 6_000, 4_000
"""Longer texts are split. Some 2,000 and 1,300 tokens: a context of 1,024 is filled, and a mix of 40,000
tokens still draws on dozens of files."""
SKIPPED_DIRECTORIES = {
    "__pycache__", "dist-packages", "encodings", "ensurepip", "idle_test", "lib-dynload", "lib2to3",
    "pydoc_data", "site-packages", "test", "tests", "turtledemo",
}  # fmt: skip
"""Tests, tables of characters, other people's packages, and `pydoc_data`, which is prose in a .py file."""


def build_shard(source: DemoSource, name: str, shard: int) -> Iterator[Record]:
    """The records of one shard, `documents / shards` of them (early shards one more when that is uneven);
    the first shard of prose also has the planted ones.

    Raises ZgcmError when the interpreter's library holds fewer.
    """
    start = sum(_share(source, index) for index in range(shard))
    count = _share(source, shard)
    if count == 0:
        raise ZgcmError(
            "A shard would be empty",
            where=f"sources.{name}",
            found=f"{source.documents} documents for {source.shards} shards",
            hint="ask for more documents or fewer shards",
        )
    if source.content == "arithmetic":
        return arithmetic.documents(count, source.seed, source.max_digit, start=start)
    if source.content == "traces":
        return arithmetic.traces(count, source.seed, source.max_digit, start=start)
    if source.content == "conversations":
        return arithmetic.conversations(
            count, source.seed, source.max_digit, source.careless_share, start=start
        )
    if source.content == "programs":
        return tasks.programs(count, source.seed, source.careless_share, start=start)
    if source.content == "instructions":
        return tasks.instructions(count, source.seed, source.careless_share, start=start)
    records = _library_records(source, name, shard, count)
    return plant(records, source.planted, source.seed) if source.planted and shard == 0 else records


def _library_records(source: DemoSource, name: str, shard: int, count: int) -> Iterator[Record]:
    code = source.content == "code"
    limit = source.document_chars or (CODE_CHARS if code else PROSE_CHARS)
    texts = library_files() if code else [*library_files(), *documentation_topics()]
    random.Random(f"demo {source.content} {source.seed}").shuffle(texts)
    make: Callable[[Text, int], Iterator[Record]] = code_documents if code else prose_documents
    pieces = (piece for text in texts[shard :: source.shards] for piece in make(text, limit))
    number = 0
    for number, record in enumerate(itertools.islice(pieces, count), 1):  # noqa: B007 - counted below
        yield record
    if number < count:
        raise ZgcmError(
            "This Python's library is too small for the demo source",
            where=f"sources.{name}.documents",
            found=f"{number} documents for shard {shard}",
            expected=f"{count}",
            hint=f"ask for at most {number * source.shards} documents",
        )


Text = tuple[str, Path | str]
"""Name, and the file or the text itself."""


def library_files(root: Path | None = None) -> list[Text]:
    """The standard library's own modules: (path below the library, file), sorted by that path."""
    root = root or Path(sysconfig.get_paths()["stdlib"])
    files = []
    for directory, below, names in os.walk(root):
        below[:] = [name for name in below if name not in SKIPPED_DIRECTORIES and "config-" not in name]
        for name in names:
            # _sysconfigdata holds the paths of the machine that built Python.
            if name.endswith(".py") and not name.startswith("_sysconfigdata"):
                path = Path(directory) / name
                files.append((path.relative_to(root).as_posix(), path))
    if not files:
        raise ZgcmError(
            "The interpreter has no library sources", where=str(root), expected="Python files",
            hint="use a complete Python (Debian, Ubuntu: apt install python3)",
        )  # fmt: skip
    return sorted(files)


def documentation_topics() -> list[Text]:
    """The language reference behind `help()`: (topic, text), sorted."""
    try:
        from pydoc_data.topics import topics
    except ModuleNotFoundError as error:
        raise ZgcmError(
            "The interpreter has no pydoc_data", where=sys.executable,
            hint="use a complete Python (Debian, Ubuntu: apt install libpython3-stdlib)",
        ) from error  # fmt: skip
    return [(f"topic {name}", text) for name, text in sorted(topics.items())]


def code_documents(text: Text, limit: int) -> Iterator[Record]:
    """A module in pieces of at most `limit` characters."""
    name, path = text
    with tokenize.open(path) as stream:
        source = stream.read()
    for number, piece in enumerate(split_text(source, limit)):
        if len(piece.strip()) >= MIN_CHARS:
            yield {
                "id": f"python/{name}#{number}", "content": piece, "path": f"Lib/{name}",
                "language": "Python", "source": "Python standard library", "license": "PSF-2.0",
            }  # fmt: skip


def prose_documents(text: Text, limit: int) -> Iterator[Record]:
    """A topic, or all documentation strings of a module, in pieces of at most `limit` characters."""
    name, body = text
    prose = body if isinstance(body, str) else documentation(body.read_bytes())
    for number, piece in enumerate(split_text(prose, limit)):
        if len(piece.strip()) >= MIN_CHARS:
            yield {
                "id": f"python-documentation/{name}#{number}", "text": piece,
                "source": "Python documentation", "license": "PSF-2.0",
            }  # fmt: skip


def documentation(source: bytes) -> str:
    """The documentation strings of a module, in its order, one empty line apart."""
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, holders)]
    nodes.sort(key=lambda node: getattr(node, "lineno", 0))
    return "\n\n".join(text for node in nodes if (text := ast.get_docstring(node)))


def split_text(text: str, limit: int) -> Iterator[str]:
    """Pieces of at most `limit` characters, cut before a line: preferably one that follows an empty line and
    is not indented (a definition, a paragraph), and never in the first half of a piece for that."""
    lines = text.splitlines(keepends=True)
    piece: list[str] = []
    size = 0
    for line in itertools.chain.from_iterable(_short(line, limit) for line in lines):
        if size + len(line) > limit:
            kept, piece = _cut(piece, limit // 2)
            yield kept
            size = sum(map(len, piece))
            if size + len(line) > limit:
                yield "".join(piece)
                piece, size = [], 0
        piece.append(line)
        size += len(line)
    if piece:
        yield "".join(piece)


def _cut(lines: list[str], least: int) -> tuple[str, list[str]]:
    """Split a full piece at its last good place after `least` characters; without one, keep it whole."""
    size = sum(map(len, lines))
    for index in range(len(lines) - 1, 0, -1):
        size -= len(lines[index])
        if size < least:
            break
        if not lines[index - 1].strip() and lines[index].strip() and not lines[index][0].isspace():
            return "".join(lines[:index]), lines[index:]
    return "".join(lines), []


def _short(line: str, limit: int) -> Iterable[str]:
    return (line[start : start + limit] for start in range(0, len(line), limit))


def _share(source: DemoSource, shard: int) -> int:
    return source.documents // source.shards + (shard < source.documents % source.shards)
