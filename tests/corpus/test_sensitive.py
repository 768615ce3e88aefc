"""What the policies keep, review, redact and drop, and that redacted records are whole."""

import json

import pytest
from planted import planted_cases
from support import clean_one, recipe_with

from zgcm.corpus.clean import clean_shard
from zgcm.corpus.messages import content_text
from zgcm.corpus.scan.matcher import scan
from zgcm.corpus.scan.redact import redact_json, redact_text
from zgcm.layout import Layout
from zgcm.records import read_records, write_records

MAIL = "Please write to li.lei@mail.org, or call 13812345678, before Friday."
SECRET = "Set the variable to ghp_" + "a1B2" * 9 + " and start it."
ALL = ("secret", "email", "phone", "ip", "id_card", "bank_card")


def cleaned(text, **cleaning):
    return clean_one("pretrain", "general_text", {"text": text}, cleaning)


def test_secrets_are_for_review_and_personal_data_is_redacted_by_default():
    sample = cleaned(f"{MAIL}\n{SECRET}")
    assert (sample.decision, sample.reasons) == ("review", ["possible_secret"])
    assert sample.flags == {"possible_secret", "redacted_email", "redacted_phone"}
    assert sample.metrics == {"found_email": 1, "found_phone": 1, "found_secret": 1, "estimated_tokens": 33}
    assert sample.text().startswith("Please write to <EMAIL>, or call <PHONE>, before Friday.\nSet")


@pytest.mark.parametrize(
    ("policy", "decision", "reasons", "changed"),
    [("keep", "keep", [], False), ("review", "review", ["possible_pii"], False), ("redact", "keep", [], True),
     ("drop", "drop", ["possible_pii"], False)],
)  # fmt: skip
def test_policies_of_personal_data(policy, decision, reasons, changed):
    sample = cleaned(MAIL, pii=policy)
    assert (sample.decision, sample.reasons) == (decision, reasons)
    assert ("<EMAIL>" in sample.text()) == changed
    assert sample.metrics["found_email"] == 1
    assert ("possible_email" in sample.flags) == (policy in ("review", "drop"))


@pytest.mark.parametrize("policy", ["keep", "review", "redact", "drop"])
def test_policies_of_secrets(policy):
    sample = cleaned(SECRET, secrets=policy)
    assert sample.decision == {"redact": "keep"}.get(policy, policy)
    assert ("<SECRET>" in sample.text()) == (policy == "redact")


def test_copies_under_other_names_do_not_survive():
    sample = clean_one(
        "pretrain", "general_text", {"text": MAIL, "body": MAIL, "meta": {"by": ["li.lei@mail.org"]}}
    )
    assert "li.lei" not in json.dumps(sample.data)
    assert sample.data["meta"] == {"by": ["<EMAIL>"]}


def test_conversations_lose_findings_everywhere_and_arguments_stay_json():
    arguments = {"to": "li.lei@mail.org", "note": "call\n13812345678", "number": 13812345678, "n": 3}
    messages = [
        {"role": "user", "content": "Write to li.lei@mail.org."},
        {"role": "assistant", "content": "", "reasoning_content": "The address is li.lei@mail.org.",
         "tool_calls": [{"name": "send", "arguments": json.dumps(arguments)}]},
        {"role": "tool", "content": '{"sent": true, "from": "8.8.8.8", "caller": 13912345678}'},
        {"role": "assistant", "content": "Sent."},
    ]  # fmt: skip
    sample = clean_one("posttrain", "agentic", {"messages": messages})
    user, call, result, _ = sample.data["messages"]
    assert user["content"] == "Write to <EMAIL>."
    assert call["reasoning_content"] == "The address is <EMAIL>."
    assert json.loads(call["tool_calls"][0]["arguments"]) == {
        "to": "<EMAIL>", "note": "call\n<PHONE>", "number": "<PHONE>", "n": 3,
    }  # fmt: skip
    assert json.loads(result["content"]) == {"sent": True, "from": "<IP>", "caller": "<PHONE>"}
    assert "li.lei" not in json.dumps(sample.data) and "13812345678" not in json.dumps(sample.data)
    assert (sample.metrics["found_email"], sample.metrics["found_phone"], sample.metrics["found_ip"]) == (
        3,
        3,
        1,
    )
    assert sample.decision == "keep"


CREDENTIAL = "abcdef1234567890"


@pytest.mark.parametrize("in_text", [True, False])
@pytest.mark.parametrize(
    ("arguments", "redacted"),
    [
        ({"user": "x", "password": CREDENTIAL}, {"user": "x", "password": "<SECRET>"}),
        ({"headers": [{"api_key": CREDENTIAL}]}, {"headers": [{"api_key": "<SECRET>"}]}),
        ({"secret": 123456789012345}, {"secret": "<SECRET>"}),
        ({"li.lei@mail.org": "admin", "x.y@mail.org": 1}, {"<EMAIL>": "admin", "<EMAIL> 1": 1}),
        ({"of": {"li.lei@mail.org": {"n": 1}}}, {"of": {"<EMAIL>": {"n": 1}}}),
        ({"note": '{"number": 13812345678}'}, {"note": '{"number": "<PHONE>"}'}),
    ],
)
def test_names_of_arguments_count(arguments, redacted, in_text):
    """A name says what its value is, and may itself be a finding."""
    given = json.dumps(arguments) if in_text else arguments
    messages = [
        {"role": "user", "content": "Log in, please, and then stop."},
        {"role": "assistant", "content": "", "tool_calls": [{"name": "login", "arguments": given}]},
        {"role": "tool", "content": "fine"},
    ]
    sample = clean_one("midtrain", "agentic", {"messages": messages}, {"secrets": "redact"})
    found = sample.data["messages"][1]["tool_calls"][0]["arguments"]
    assert (json.loads(found) if in_text else found) == redacted
    assert [value for name, value in sample.metrics.items() if name.startswith("found_")]
    assert not [secret for secret in (CREDENTIAL, "123456789012345", "@", "138") if secret in sample.text()]


@pytest.mark.parametrize("stage", ["midtrain", "posttrain"])
@pytest.mark.parametrize("in_parts", [True, False])
def test_escapes_in_what_a_tool_returns_hide_nothing(stage, in_parts):
    """Python's json.dumps escapes Chinese: a letter of the escape then stands before the number."""
    returned = {"note": "电话13812345678", "lines": ["call\n13912345678"]}
    messages = [
        {"role": "user", "content": "Look the number up, please."},
        {"role": "assistant", "content": "", "tool_calls": [{"name": "look", "arguments": "{}"}]},
        {"role": "tool", "content": json.dumps(returned, indent=1)},
    ]
    if in_parts:
        messages[2]["content"] = [{"type": "text", "text": messages[2]["content"]}]
    sample = clean_one(stage, "agentic", {"messages": messages})
    assert json.loads(content_text(sample.data["messages"][2]["content"]))["lines"] == ["call\n<PHONE>"]
    assert sample.metrics["found_phone"] == 2
    assert "138" not in sample.text() and "139" not in sample.text()


@pytest.mark.parametrize("in_text", [True, False])
def test_nothing_planted_survives_anywhere_in_a_conversation(in_text):
    for case in planted_cases(seed=5, rounds=2):
        arguments = {case.text: 1, "of": {"x": [case.value]}, "note": case.text}
        messages = [
            {"role": "user", "content": case.text},
            {"role": "assistant", "content": "", "reasoning_content": case.text, "tool_calls": [
                {"name": "f", "arguments": json.dumps(arguments) if in_text else arguments}]},
            {"role": "tool", "content": json.dumps({"found": case.text})},
        ]  # fmt: skip
        sample = clean_one("posttrain", "agentic", {"messages": messages}, {"secrets": "redact"})
        found = [case.text[item.start : item.end] for item in scan(case.text) if item.kind == case.kind]
        assert not [value for value in found if value in json.dumps(sample.data, ensure_ascii=False)]


def test_json_keeps_its_layout_where_a_placeholder_fits_in():
    assert redact_json('{"a":  "x@y.org"}', ALL) == '{"a": "<EMAIL>"}'
    assert redact_text('{"a":  "x@y.org"}', ALL) == '{"a":  "<EMAIL>"}'
    assert redact_json('{"a":  1}', ALL) == '{"a":  1}'
    assert redact_json("no JSON, x@y.org", ALL) == "no JSON, <EMAIL>"
    assert redact_text("x@y.org and 13812345678", ("phone",)) == "x@y.org and <PHONE>"


def test_the_summary_counts_by_kind(tmp_path):
    raw, layout = tmp_path / "raw.jsonl", Layout(tmp_path / "results")
    write_records(
        raw, [{"id": str(number), "text": f"{number}: {MAIL}"} for number in range(3)] + [{"text": SECRET}]
    )
    recipe = recipe_with(
        {"kind": "files", "files": [str(raw)], "stage": "pretrain", "category": "general_text"}
    )
    summary = clean_shard(recipe, layout, "mine", "00000")
    assert summary["found"] == {"email": 3, "phone": 3, "secret": 1}
    assert (summary["kept"], summary["review"]) == (3, 1)
    assert not [
        record for record in read_records(layout.cleaned("mine", "00000")) if "@" in record["data"]["text"]
    ]
