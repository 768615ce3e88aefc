"""What the cleaning steps make of conversations: their form, and what of them counts."""

import itertools
import json

import pytest
from support import clean_one, outcome

from zgcm.config.corpus import CATEGORIES, STAGES

KEPT = ("keep", [])


CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"function": {"name": "ls", "arguments": {"at": "é"}}}],
}

TRACE = [{"role": "user", "content": "List the files, please."}, CALL, {"role": "tool", "content": "a b c"}]


CONVERSATION = [
    {"role": "human", "content": "What is 47+38?"},
    "not a message",
    {"role": "GPT", "content": "<THINK> 7+8=15, 4+3+1=8 </THINK>It is 85.<think></think>"},
]


def test_messages_are_normalised():
    sample = clean_one("posttrain", "instruction", {"messages": CONVERSATION})
    assert sample.data["messages"] == [
        {"role": "user", "content": "What is 47+38?"},
        {"role": "assistant", "content": "It is 85.", "reasoning_content": "7+8=15, 4+3+1=8"},
    ]
    assert sample.metrics["turns"] == 2.0
    assert sample.decision == "keep"


def test_reasoning_and_tool_calls_count():
    """Published: only `content` does."""
    sample = clean_one("posttrain", "agentic", {"messages": [
        TRACE[0], {**CALL, "reasoning_content": "password = abcdefgh12345"}, TRACE[2]]})  # fmt: skip
    assert "possible_secret" in sample.reasons
    assert '{"at": "é"}' in sample.text()
    plain = clean_one("posttrain", "math", {"messages": CONVERSATION})
    assert "7+8=15" in plain.text()
    assert plain.decision == "review"


@pytest.mark.parametrize(("stage", "category"), itertools.product(STAGES, CATEGORIES))
def test_a_conversation_is_judged_by_what_is_said_whatever_else_the_record_holds(stage, category):
    """Its messages are what training reads, in every stage; nothing else may stand for them."""
    other = {
        name: f"Another {name} that is long enough, therefore the answer: 1."
        for name in ("text", "prompt", "response", "question", "solution", "answer", "problem", "reasoning")
    }
    thought = {"role": "assistant", "content": "Thus 85.", "reasoning_content": "First, 7+8=15, 4+3+1=8."}
    sample = clean_one(stage, category, {**other, "messages": [TRACE[0], thought]})
    assert sample.text() == ("user: List the files, please.\nassistant: First, 7+8=15, 4+3+1=8.\nThus 85.")


def test_messages_that_are_no_conversation_leave_the_text_alone():
    data = {"text": "def commit():\n    return 'x@y.org'", "messages": [{"author": "x", "body": "mends it"}]}
    assert clean_one("pretrain", "code", data).text() == data["text"].replace("x@y.org", "<EMAIL>")


def test_tool_arguments_stay_json():
    """Published: `str(arguments)`, Python's own form."""
    sample = clean_one("posttrain", "agentic", {"messages": TRACE})
    call = sample.data["messages"][1]["tool_calls"][0]
    assert call["name"] == "ls"
    assert json.loads(call["arguments"]) == {"at": "é"}
    assert call["function"]["arguments"] == {"at": "é"}


def test_an_empty_conversation_is_dropped():
    assert outcome("posttrain", "instruction", {"messages": []})[0] == "drop"
    assert outcome("posttrain", "math", {"messages": []})[0] == "drop"


@pytest.mark.parametrize(
    ("said", "outcome_label"),
    [
        ("All tests passed.", "verified"),
        ("Successfully submitted", "verified"),
        ("exit code 0\nSubmitted", "verified"),
        ('{"success": true}', "verified"),
        ("The attempt was unsuccessful", "weak"),
        ("The patch was not submitted", "weak"),
        ("It hasn't been submitted", "weak"),
        ("0 tests passed", "weak"),
        ("0 of 5 tests passed", "weak"),
        ("never a success", "weak"),
        ('{"success": false}', "weak"),
        ("tests passed: 0", "weak"),
        ("permission denied, no success", "failed"),
    ],
)
def test_success_is_a_word_and_undenied(said, outcome_label):
    """Published: any substring counts, so "unsuccessful" is a success."""
    trace = [*TRACE[:2], {"role": "tool", "content": said}]
    assert clean_one("midtrain", "agentic", {"messages": trace}).buckets["outcome"] == outcome_label


def test_what_the_user_asks_for_is_no_outcome():
    asked = [{"role": "user", "content": "Finish when all tests passed and it is submitted."}, *TRACE[1:]]
    assert clean_one("midtrain", "agentic", {"messages": asked}).buckets["outcome"] == "weak"


def test_contents_in_parts_become_text():
    """Published: `str(content)`, Python's own form of a list."""
    parts = [{"type": "text", "text": "What is 47+38?"}, {"type": "image", "url": "u"}]
    talk = [
        {"role": "user", "content": parts},
        {"role": "assistant", "content": "It is eighty-five, friend."},
    ]
    sample = clean_one("posttrain", "instruction", {"messages": talk})
    assert sample.data["messages"][0]["content"] == 'What is 47+38?\n{"type": "image", "url": "u"}'


def test_answers_of_conversations_are_looked_through_for_templates():
    """Published: only the field `response` is."""
    talk = [{"role": "system", "content": "Be nice."}, {"role": "user", "content": "Who are you?"},
            {"role": "assistant", "content": "As an AI language model, I cannot say."}]  # fmt: skip
    sample = clean_one("posttrain", "instruction", {"messages": talk})
    assert (sample.decision, sample.reasons) == ("review", ["generic_model_template"])
    assert sample.buckets["turns"] == "single"


def test_a_web_conversation_is_measured_whole():
    talk = [
        {"role": "user", "content": "Who is it?"},
        {"role": "assistant", "content": "Me.", "reasoning_content": "There is nobody else around here."},
    ]
    sample = clean_one("posttrain", "web", {"question": "Who is it?", "answer": "Me.", "messages": talk})
    assert "nobody else" in sample.text()


def test_tool_calls_that_are_no_list_do_no_harm():
    trace = [TRACE[0], {**CALL, "tool_calls": 5}, TRACE[2]]
    assert clean_one("posttrain", "agentic", {"messages": trace}).decision in ("keep", "review")


def test_messages_of_from_and_value():
    talk = [
        {"from": "human", "value": "What is 47+38?"},
        {"from": "gpt", "value": "It is eighty-five, friend."},
    ]
    sample = clean_one("posttrain", "instruction", {"messages": talk})
    assert (sample.decision, sample.reasons) == KEPT
    assert sample.data["messages"] == [
        {"role": "user", "content": "What is 47+38?"},
        {"role": "assistant", "content": "It is eighty-five, friend."},
    ]
