"""Tests by the hash of their content: `ROOT/ab/abcd….json.gz`, written by `zgcm prompts convert`."""

import functools
import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from zgcm.errors import ZgcmError
from zgcm.io import found_there, read_json, sha256_bytes

TASKS = ("code", "code_stdio")
MANIFEST = "manifest.json"
CHECKERS = 8
MAKE = "correct the directory, or make it: zgcm prompts convert FILE --format humaneval --assets DIRECTORY"


class AssetError(ZgcmError):
    """Tests are missing or damaged: nobody's program is wrong for that."""


@functools.lru_cache(maxsize=64)
def load(root: Path, name: str, task: str) -> tuple[Any, ...]:
    """The tests of an asset: sources of Python (`code`), or objects with `input` and `output` (`code_stdio`),
    whose lists become lines. Raises AssetError."""
    if not re.fullmatch(r"[0-9a-f]{64}", name):
        raise AssetError("No name of an asset", found=name[:80], expected="64 small hexadecimal digits")
    path = root / name[:2] / f"{name}.json.gz"
    try:
        packed = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or str(error)  # the text of a system error repeats the path
        raise AssetError("Tests cannot be read", where=str(path), found=why, hint=MAKE) from error
    if sha256_bytes(packed) != name:
        raise AssetError("Tests are not what their name says", where=str(path), found=sha256_bytes(packed))
    try:
        tests = json.loads(packed)
    except (ValueError, RecursionError):
        tests = None
    if not isinstance(tests, list) or not tests or not all(_is_test(test, task) for test in tests):
        raise AssetError("No list of tests", where=str(path), expected=f"what the task {task} needs")
    return tuple(tests)


def picked(root: Path, name: str, task: str, seed: str, most: int) -> list[Any]:
    """The tests of an asset that run, at most `most`. Raises AssetError."""
    tests = load(root, name, task)
    return [tests[index] for index in chosen(len(tests), seed, most)]


def check(root: Path, tasks: Mapping[str, str]) -> None:
    """Raises AssetError unless the manifest lists each asset (hash -> its task) and each is there, whole."""
    path = root / MANIFEST
    if not path.is_file():
        raise AssetError("No tests", where=str(root), found=found_there(root), expected=MANIFEST, hint=MAKE)
    listed = read_json(path).get("assets")
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        raise AssetError("The manifest lists no tests", where=str(path), expected='"assets": [hash, ...]')
    if absent := sorted(tasks.keys() - set(listed)):
        raise AssetError(
            "Tests of prompts are missing", where=str(path), found=f"no {absent[0]}",
            expected=f"{len(tasks)} sets of tests, of which {len(absent)} are not listed",
        )  # fmt: skip
    with ThreadPoolExecutor(CHECKERS) as threads:  # unpacking and hashing leave other threads running
        for _ in threads.map(lambda item: load.__wrapped__(root, *item), tasks.items()):
            pass


def chosen(tests: int, seed: str, most: int) -> list[int]:
    """Which of the tests run, and in which order: ordered by SHA-256 of `SEED:INDEX`.

    >>> chosen(6, "0" * 64, 6)
    [1, 5, 4, 0, 3, 2]
    """
    order = sorted(range(tests), key=lambda index: hashlib.sha256(f"{seed}:{index}".encode()).digest())
    return order[:most]


def text(part: Any) -> str:
    """Input or output of a test: a text, or a list of lines."""
    return "\n".join(map(str, part)) + "\n" if isinstance(part, list) else str(part)


def _is_test(test: Any, task: str) -> bool:
    return (
        isinstance(test, str)
        if task == "code"
        else isinstance(test, dict) and {"input", "output"} <= set(test)
    )
