"""The scan against a full one, against detect-secrets itself, and its false positives."""

import itertools
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted import MAKERS, planted_cases

from zgcm.config.corpus import DemoSource
from zgcm.corpus.arithmetic import documents
from zgcm.corpus.demo import build_shard
from zgcm.corpus.scan.matcher import all_detectors, candidates, findings, scan

CASES = planted_cases(seed=20260601, rounds=40)


def full_scan(text: str) -> set[tuple[str, str]]:
    """Every detector on every line, nothing asked beforehand: (kind, what was found)."""
    return {
        (finding.kind, line[finding.start : finding.end])
        for line in text.split("\n")
        for finding in findings(line, all_detectors())
    }


def test_recall_against_the_full_scan_and_the_truth():
    assert len(CASES) == 40 * len(MAKERS) >= 300
    expected = found = true = 0
    missed = []
    for case in CASES:
        ours = scan(case.text)
        starts = {(item.kind, case.text[item.start : item.end].split("\n")[0]) for item in ours}
        full = full_scan(case.text)
        expected += len(full)
        # a key block that ends on a later line begins, in a scan by lines, with its header alone
        found += sum(any(kind == k and s.startswith(v) for k, s in starts) for kind, v in full)
        hit = any(item.kind == case.kind for item in ours)
        true += hit
        missed += [] if hit else [case]
    assert expected >= 300
    assert found >= 0.98 * expected
    assert true >= 0.98 * len(CASES), missed[:5]


def test_placeholders_cover_the_planted_value():
    """No part of a number or token may stay behind."""
    for case in CASES:
        if case.kind == "secret":
            continue
        (item,) = [item for item in scan(case.text) if item.kind == case.kind] or [None]
        if item is not None:
            assert case.value in case.text[item.start : item.end]


def test_finds_what_detect_secrets_finds():
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
    from detect_secrets.plugins.base import RegexBasedDetector

    kinds = get_mapping_from_secret_type_to_class().values()
    plugins = [kind() for kind in kinds if issubclass(kind, RegexBasedDetector)]
    plugins = [plugin for plugin in plugins if plugin.secret_type != "Public IP (ipv4)"]
    theirs = missed = 0
    for case in CASES:
        if case.kind == "secret" and any(
            p.analyze_line("x", line) for p in plugins for line in case.text.split("\n")
        ):
            theirs += 1
            missed += not any(item.kind == "secret" for item in scan(case.text))
    assert theirs >= 300
    assert missed == 0


@given(
    st.lists(
        st.sampled_from([case.text for case in CASES[:200]] + ["\n", "x", "7", "é", "\ud800"]), max_size=4
    )
)
def test_candidates_miss_nothing(pieces):
    """The first pass is a superset: no detector that would find something is left out."""
    text = "".join(pieces)
    named = {detector.name for detector in candidates(text)}
    finding = {item.detector for detector in all_detectors() for item in findings(text, [detector])}
    assert finding <= named


def test_false_positives_on_documentation():
    """The demo's prose has addresses of authors, and networks of the documentation of `ipaddress`: findings.
    Everything else is a false positive, at most five a million characters."""
    source = DemoSource(
        kind="demo", content="prose", stage="pretrain", category="general_text", documents=300
    )
    texts = [record["text"] for record in build_shard(source, "x", 0)]
    millions = sum(map(len, texts)) / 1e6
    counts = Counter(item.kind for text in texts for item in scan(text))
    addresses = counts.pop("email") + counts.pop("ip")
    assert millions > 0.5
    assert sum(counts.values()) / millions <= 5, counts
    assert addresses / millions <= 150


def test_false_positives_on_arithmetic():
    """One number in a thousand at most: one in ten of the right length and prefix has a right check digit."""
    texts = [f"{record['question']}\n{record['solution']}" for record in documents(2000, 1, 9)]
    assert [item for text in texts for item in scan(text)] == []
    random_ = random.Random(5)
    texts = []
    for _ in range(5000):
        a, b = (random_.randrange(10 ** random_.randint(1, 19)) for _ in range(2))
        texts += [f"{a} + {b} = {a + b}", f"{a} × {b} = {a * b}, so {a / (b + 1)} is it.", f"答案是{a + b}。"]
    found = Counter(item.kind for text in texts for item in scan(text))
    assert sum(found.values()) / len(texts) <= 0.005, found


@pytest.mark.parametrize(
    "text",
    [
        "Version 1.2.3.4 and v10.20.30.40", "127.0.0.1, 192.168.1.10, 10.0.0.8", "y = x@self.weight + a@b.T",
        "3.14159265358979323846 and 0.4111111111111111", "12:30:45, a[::2], std::vector", "icon@2x.png",
        "4111 1111 1111 1112 has a wrong check digit", "110105194912310021 has one too", "password: short",
        "13812345678 + 1 = 13812345679 + 0", "550e8400-e29b-41d4-a716-446655440000",
        "2026-11-29 16:44:55.123456", "978-7-111-12345-6", "DE89 3704 0044 0532 0130 01",
    ],
)  # fmt: skip
def test_look_alikes_are_left_alone(text):
    assert scan(text) == ()


@pytest.mark.parametrize(
    ("before", "value", "behind"),
    [
        ("AWS_SECRET_ACCESS_KEY=", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "\nnext"),
        ("SECRET_KEY = '", "django-insecure-0a1b2c3d4e$x%", "'"),
        ('{"password": "', "S3cretS3cret!of@us", '"}'),
        ("api_key: ", "0123456789abcdef", ", and more"),
    ],
)
def test_a_placeholder_covers_a_whole_credential(before, value, behind):
    """What is left of one behind its first twelve letters is still a secret."""
    text = before + value + behind
    assert [text[item.start : item.end] for item in scan(text)] == [value]


def test_overlaps_belong_to_the_stricter_detector():
    (item,) = scan("https://name:pa55word@host.org/")
    assert (item.kind, item.detector) == ("secret", "BasicAuthDetector")


def test_findings_lie_in_order_and_apart():
    text = "\n".join(case.text for case in CASES)
    found = scan(text)
    assert all(first.end <= second.start for first, second in itertools.pairwise(found))
    assert {(item.kind, text[item.start : item.end]) for item in found} >= {
        (item.kind, case.text[item.start : item.end])
        for case in CASES
        if case.kind != "secret"
        for item in scan(case.text)
        if item.kind == case.kind
    }
