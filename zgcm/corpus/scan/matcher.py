"""Candidates by Hyperscan, findings by the detectors' own patterns. One process, one thread at a time."""

import bisect
import functools
import re
from collections.abc import Iterable, Iterator
from typing import Any

import hyperscan

from zgcm.corpus.scan.detector import Detector, Finding
from zgcm.corpus.scan.personal import personal_detectors
from zgcm.corpus.scan.secrets import secret_detectors

_FLAGS = hyperscan.HS_FLAG_PREFILTER | hyperscan.HS_FLAG_SINGLEMATCH | hyperscan.HS_FLAG_ALLOWEMPTY
"""Prefilter: lookarounds, which Hyperscan lacks, are widened, so nothing is missed. Single match: a detector
reports once a text, however often it matches."""


@functools.lru_cache(maxsize=1)  # a text that is to be redacted was just scanned
def scan(text: str) -> tuple[Finding, ...]:
    """All findings in `text`, by position, none overlapping another."""
    named = candidates(text)
    return tuple(findings(text, named)) if named else ()


def candidates(text: str) -> list[Detector]:
    """The detectors that may find something, in their order. A superset of those that do."""
    matcher, detectors = _matcher()
    hits: list[int] = []

    def note(number: int, start: int, end: int, flags: int, context: Any) -> None:
        hits.append(number)

    matcher.scan(text.encode("utf-8", "surrogatepass"), match_event_handler=note)
    return [detectors[number] for number in sorted(hits)]


def findings(text: str, detectors: Iterable[Detector]) -> list[Finding]:
    """What these detectors find. Where two findings overlap, the earlier detector's stays."""
    kept: list[Finding] = []  # by position; a dump of mails in one record holds thousands
    for finding in _all_findings(text, detectors):
        place = bisect.bisect(kept, finding.start, key=_start)
        before, behind = kept[place - 1 : place], kept[place : place + 1]
        if all(other.end <= finding.start for other in before) and all(
            finding.end <= other.start for other in behind
        ):
            kept.insert(place, finding)
    return kept


def _start(finding: Finding) -> int:
    return finding.start


def _all_findings(text: str, detectors: Iterable[Detector]) -> Iterator[Finding]:
    for detector in detectors:
        for match in detector.pattern.finditer(text):
            if span := detector.check(match):
                yield Finding(detector.kind, *span, detector.name)


@functools.cache
def all_detectors() -> tuple[Detector, ...]:
    """Secrets before personal data, so that the password in a URL is not half of a mail address."""
    return (*secret_detectors(), *personal_detectors())


@functools.cache
def _matcher() -> tuple[hyperscan.Database, tuple[Detector, ...]]:
    """The compiled patterns of all detectors: some 0.2 s, once a process."""
    detectors = all_detectors()
    database = hyperscan.Database()
    database.compile(
        expressions=[(detector.hint or detector.pattern.pattern).encode() for detector in detectors],
        ids=list(range(len(detectors))),
        elements=len(detectors),
        flags=[_FLAGS | _case(detector) for detector in detectors],
    )
    return database, detectors


def _case(detector: Detector) -> int:
    return hyperscan.HS_FLAG_CASELESS if detector.pattern.flags & re.IGNORECASE else 0
