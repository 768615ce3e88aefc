"""Instruction id -> checker class: lm-eval's 25 of IFEval, or those of a checkout of Open-Instruct (54).

Neither downloads anything, and both say the same in every process. A checkout is loaded from its path alone:
`sys.path` and `sys.modules` are afterwards what they were before.
"""

import contextlib
import functools
import importlib
import io
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from zgcm.config.rl import Reward
from zgcm.errors import ZgcmError
from zgcm.io import canonical_json, sha256_bytes, sha256_file

PACKAGE, CHECKERS = "open_instruct", "IFEvalG"
_ABBREVIATIONS = (
    "a.m p.m e.g i.e etc vs cf al approx dept est fig inc jr sr ltd co corp mr mrs ms dr prof rev gen col lt "
    "st mt no vol u.s u.k u.n ph.d b.c a.d jan feb mar apr jun jul aug sep sept oct nov dec"
)


@dataclass(frozen=True)
class Checkout:
    """Of Open-Instruct."""

    directory: Path
    sha256: str
    """Over names and content of its checkers' files. `registry` refuses others."""

    @classmethod
    def of(cls, directory: Path) -> "Checkout":
        """With the files that are there now. Raises ZgcmError when there are none."""
        return cls(directory, _content(directory / PACKAGE / CHECKERS))

    @property
    def checkers(self) -> Path:
        return self.directory / PACKAGE / CHECKERS


def _content(checkers: Path) -> str:
    if not (checkers / "instructions_registry.py").is_file():
        raise ZgcmError(
            "There is no registry of Open-Instruct here", where=str(checkers),
            found="no instructions_registry.py",
            hint="give the directory of a clone of allenai/open-instruct",
        )  # fmt: skip
    files = [[path.name, sha256_file(path)] for path in sorted(checkers.glob("*.py"))]
    return sha256_bytes(canonical_json(files))


def checkout_of(reward: Reward) -> Checkout | None:
    """None: lm-eval's."""
    given = reward.open_instruct
    return None if given is None else Checkout(Path(given.checkout).absolute(), given.sha256)


@functools.cache
def registry(checkout: Checkout | None = None) -> Mapping[str, Any]:
    """The checkers. Raises ZgcmError for a checkout that is missing, of another content, or does not load.

    lm-eval fetches NLTK's sentence model when imported, and language detection draws random numbers.
    Sentences are found by NLTK's own algorithm (Punkt) with a list of English abbreviations, not that model.
    """
    import langdetect
    import nltk
    from nltk.tokenize import NLTKWordTokenizer
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    with _without_downloads(nltk):
        found, utilities = _of_lm_eval() if checkout is None else _of_open_instruct(checkout)
    langdetect.DetectorFactory.seed = 0
    parameters = PunktParameters()
    parameters.abbrev_types.update(_ABBREVIATIONS.split())
    sentences = PunktSentenceTokenizer(parameters)
    words = NLTKWordTokenizer()
    utilities._get_sentence_tokenizer = lambda: sentences
    nltk.word_tokenize = lambda text: [
        word for part in sentences.tokenize(text) for word in words.tokenize(part)
    ]
    return found


def _of_lm_eval() -> tuple[Mapping[str, Any], Any]:
    with contextlib.redirect_stdout(io.StringIO()):  # it says that it has downloaded
        from lm_eval.tasks.ifeval import instructions_registry, instructions_util
    return instructions_registry.INSTRUCTION_DICT, instructions_util


def _of_open_instruct(checkout: Checkout) -> tuple[Mapping[str, Any], Any]:
    content = _content(checkout.checkers)
    if content != checkout.sha256:
        raise ZgcmError(
            "The checkout of Open-Instruct is of another content",
            where=str(checkout.checkers), found=content, expected=checkout.sha256,
            hint="check out the commit that the recipe means, or correct reward.open_instruct.sha256",
        )  # fmt: skip
    with _packages({PACKAGE: checkout.checkers.parent, f"{PACKAGE}.{CHECKERS}": checkout.checkers}):
        try:
            known, utilities = (
                importlib.import_module(f"{PACKAGE}.{CHECKERS}.{name}")
                for name in ("instructions_registry", "instructions_util")
            )
            return dict(known.INSTRUCTION_DICT), utilities
        except Exception as error:  # of whatever it imports
            raise ZgcmError(
                "The checkers of Open-Instruct cannot be loaded",
                where=str(checkout.checkers), found=f"{type(error).__name__}: {error}"[:300],
                hint="install what is missing, or take another commit",
            ) from error  # fmt: skip


@contextlib.contextmanager
def _packages(places: Mapping[str, Path]) -> Iterator[None]:
    """Inside the block these packages are those directories. Their `__init__` does not run: the rest of
    Open-Instruct needs what judging does not."""
    roots = {name.partition(".")[0] for name in places}

    def theirs() -> list[str]:
        return [name for name in sys.modules if name.partition(".")[0] in roots]

    before = {name: sys.modules.pop(name) for name in theirs()}
    for name, path in places.items():
        sys.modules[name] = ModuleType(name)
        sys.modules[name].__path__ = [str(path)]
    importlib.invalidate_caches()
    try:
        yield
    finally:
        for name in theirs():
            del sys.modules[name]
        sys.modules.update(before)


@contextlib.contextmanager
def _without_downloads(nltk: Any) -> Iterator[None]:
    download = nltk.download
    nltk.download = lambda *_, **__: True
    try:
        yield
    finally:
        nltk.download = download
