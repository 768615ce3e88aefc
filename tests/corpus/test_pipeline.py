"""Samples, adapters, the engine, the order of steps and their settings."""

import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from support import clean_one, recipe_with

from zgcm.corpus.adapters import adapt
from zgcm.corpus.order import CATEGORY_STEPS, step_order
from zgcm.corpus.pipeline import run_steps
from zgcm.corpus.sample import DROP, KEEP, REVIEW, Sample
from zgcm.records import training_text

COMMON_PREFIX = [
    "normalize_schema_text",
    "validate_basic_integrity",
    "validate_provenance",
    "scan_sensitive_content",
]

RANKS = [KEEP, REVIEW, DROP]


def sample(**data) -> Sample:
    return Sample("d", "1", "pretrain", "general_text", data)


@given(st.lists(st.tuples(st.sampled_from([KEEP, REVIEW, DROP]), st.text(max_size=2)), max_size=6))
def test_decisions_only_go_down(marks):
    item, ranks = sample(), [0]
    for decision, reason in marks:
        item.mark(decision, reason)
        ranks.append(RANKS.index(item.decision))
    assert ranks == sorted(ranks)
    assert ranks[-1] == max((RANKS.index(decision) for decision, _ in marks), default=0)
    assert item.reasons == list(dict.fromkeys(reason for _, reason in marks if reason))


def test_text_joins_non_empty_strings():
    item = sample(a="x", b="", c=3, d="y")
    item.text_fields = ("a", "b", "c", "missing", "d")
    assert item.text() == "x\ny"


def test_record_names_what_the_training_text_is():
    data = {"question": "What is 1+1?", "solution": "It is 2, therefore " + "2 " * 20}
    record = clean_one("midtrain", "math", data).record()
    assert set(record) == {
        "dataset", "source_id", "stage", "category", "decision", "reasons", "flags", "buckets", "metrics",
        "data", "text_fields", "record_sha256",
    }  # fmt: skip
    assert training_text(record["data"], record["text_fields"]).startswith("What is 1+1?\nIt is 2")


def test_engine_stops_at_a_drop_and_counts():
    def first(item, settings):
        item.review("odd")

    def second(item, settings):
        if item.source_id == "bad":
            item.drop("bad")

    def third(item, settings):
        item.buckets["third"] = "seen"

    samples = [Sample("d", name, "pretrain", "code", {}) for name in ("good", "bad")]
    counters: Counter[str] = Counter()
    good, bad = run_steps(samples, [first, second, third], {}, counters)
    assert (good.decision, bad.decision) == (REVIEW, DROP)
    assert good.buckets and not bad.buckets
    assert counters == {
        "input": 2, "output.review": 1, "output.drop": 1, "step.first.seen": 2, "step.first.review": 2,
        "step.second.seen": 2, "step.second.drop": 1, "step.third.seen": 1,
    }  # fmt: skip


def test_adapter_maps_fields_names_records_and_fills_defaults():
    source = recipe_with(
        {
            "kind": "files", "files": ["x.jsonl"], "stage": "pretrain", "category": "code", "dataset": "set",
            "defaults": {"license": "MIT"}, "id_field": "key",
            "field_map": {"body": "text", "lang": "language"},
        }
    ).sources["mine"]  # fmt: skip
    raw = [
        {"key": 7, "body": "a", "language": "C", "lang": "D"},
        {"key": 0, "license": "X", "source": "there"},
    ]
    first, second = adapt(raw, source, "mine", "00003")
    assert first.source_id == "7"
    assert first.data == {
        "key": 7, "body": "a", "text": "a", "language": "C", "lang": "D", "license": "MIT", "source": "set",
    }  # fmt: skip
    assert second.source_id == "set:00003:1"
    assert (second.data["license"], second.data["source"]) == ("X", "there")
    assert raw[0] == {"key": 7, "body": "a", "language": "C", "lang": "D"}


def names(stage, category):
    return [step.__name__ for step in step_order(stage, category)]


def test_order_of_steps():
    assert names("midtrain", "math") == [
        "normalize_math_schema", *COMMON_PREFIX, "validate_problem_solution", "validate_math_answer_signal",
        "bucket_math", "apply_quality_policy", "stamp_text_digest", "estimate_tokens_and_length_bucket",
        "finalize_quality_bucket",
    ]  # fmt: skip
    code = names("pretrain", "code")
    assert code.index("bucket_code_task") < code.index("normalize_schema_text")
    assert names("posttrain", "code")[:3] == [
        "normalize_messages", "normalize_tool_calls", "normalize_code_schema",
    ]  # fmt: skip
    assert names("midtrain", "general_text")[:4] == COMMON_PREFIX


def test_every_stage_takes_every_category():
    for stage, category in itertools.product(("pretrain", "midtrain", "posttrain"), CATEGORY_STEPS):
        order = names(stage, category)
        assert len(set(order)) == len(order)
        assert [name for name in order if name in COMMON_PREFIX] == COMMON_PREFIX
        assert order[-1] == "finalize_quality_bucket"
