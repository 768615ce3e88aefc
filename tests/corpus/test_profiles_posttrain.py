"""The published profiles of post-training sets: what each keeps, drops, converts and writes."""

import json

import pytest
from support import judged, profiled

THOUGHT = {"role": "assistant", "content": "before <think> 7+8=15 </think> It is 85.", "id": 3}

ASKED = {"role": "user", "content": "What is 47+38, please?"}

MATH = "owner/OpenThoughts3-full-filtered-math-decontam-v2"


def think(content, settings=None, **more):
    messages = [ASKED, {"role": "assistant", "content": content}]
    return judged("dolci_think", {"dataset_source": MATH, "messages": messages, **more}, settings)


SYSTEM = {
    "role": "system",
    "content": "You are a function calling AI model. Be brief.",
    "functions": json.dumps([{"name": "weather", "parameters": {}}]),
}

CALLS = {"role": "assistant", "content": None, "function_calls": 'weather(city="Oslo", days=[1, 2])'}

SEEN = {"role": "environment", "content": '{"sky": "blue"}'}

TOLD = {"role": "assistant", "content": "The sky is blue.", "function_calls": None}

TALK = [SYSTEM, {"role": "user", "content": "How is the weather?"}, CALLS, SEEN, TOLD]


def test_dolci_think_splits_reasoning():
    sample = profiled("dolci_think", {"dataset_source": MATH, "messages": [ASKED, THOUGHT]})
    assert (sample.decision, sample.reasons) == ("keep", [])
    assert sample.data["messages"] == [
        ASKED, {"role": "assistant", "content": "It is 85.", "reasoning_content": "7+8=15", "id": 3},
    ]  # fmt: skip
    assert sample.data["source_key"] == sample.buckets["dolci_source"] == "openthoughts_math"
    assert sample.data["ability"] == "math_reasoning"
    assert (sample.data["source"], sample.data["think_mode"]) == (MATH, "think")
    words = 15  # What is 47 38 please, 7 8 15, It is 85, and 4 for the turn
    assert sample.data["metadata"] == {"rough_render_tokens": words, "source_label": "openthoughts_math"}
    assert sample.metrics["dolci_think_rough_tokens"] == words


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("no thought", "missing_complete_think"),
        ("<think> cut off", "missing_complete_think"),
        ("</think> turned <think>", "missing_complete_think"),
        ("<THINK>x</THINK> y", "missing_complete_think"),
        ("<think> </think> answer", "empty_think"),
        ("<think>x</think> ", "empty_visible_answer"),
        ("<think>x</think> y <think>z</think> w", "multiple_think_blocks"),
        ("<think>x</think> y <|IM_end|>", "template_token"),
        ("<think>[gMASK]</think> y", "template_token"),
        ("<think>x</think> y <|assistant_end|>", "template_token"),
        ("<think>x</think> y <|System: be brief|>", "template_token"),
        (f"<think>{'round and round it goes ' * 40}</think> y", "repetition"),
    ],
)
def test_dolci_think_answers(content, reason):
    assert think(content) == ("drop", [f"dolci_think_{reason}"])


def test_dolci_think_records():
    content = "<think>a b c</think> an answer"
    assert judged("dolci_think", {"dataset_source": "x/y"}) == (
        "drop",
        ["dolci_think_not_target_source"],
    )
    for messages, reason in (([], "bad_messages"), (["x"], "bad_message_object")):
        data = {"dataset_source": MATH, "messages": messages}
        assert judged("dolci_think", data) == ("drop", [f"dolci_think_{reason}"])
    assert think(content + "<|user|>", {"dolci_think_strict": False})[0] == "review"
    # 13 words and 4 for the turn, by hand: What is 47 38 please / a b c / an answer
    assert think(content, {"dolci_think_max_rough_tokens": 13}) == ("drop", ["dolci_think_over_length"])
    assert think(content, {"dolci_think_review_rough_tokens": 13}) == ("review", ["dolci_think_long_record"])
    assert think(content, {"dolci_think_review_rough_tokens": 14}) == ("keep", [])


def test_ultradata_repairs():
    sample = profiled("ultradata", {"messages": [
        {"role": "system", "content": " "}, ASKED,
        {"role": "assistant", "content": "well <think>7+8=15</think>It is 85."},
        {"role": "user", "content": "And 1+1? Think."},
        {"role": "assistant", "content": "It is two.", "reasoning_content": "<think>1+1</think>"},
    ]})  # fmt: skip
    assert (sample.decision, sample.reasons) == ("keep", [])
    assert [message["role"] for message in sample.data["messages"]] == ["user", "assistant"] * 2
    first, second = sample.data["messages"][1::2]
    assert (first["content"], first["reasoning_content"]) == ("It is 85.", "well 7+8=15")
    assert second["reasoning_content"] == "1+1"
    assert sample.buckets["format_profile"] == "ultradata"
    assert sample.flags == {
        "ultradata_removed_empty_system", "ultradata_repaired_visible_think_leak",
        "ultradata_stripped_reasoning_content_tag",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ("x", "bad_messages"),
        (["x"], "non_dict_message"),
        ([{"role": "user", "content": "a <|eot_id|>"}], "foreign_chat_template_token"),
        ([{"role": "assistant", "content": "a", "reasoning": "<|model|>"}], "foreign_chat_template_token"),
        ([ASKED, {"role": "assistant", "content": "<think></think>"}], "empty_after_think_repair"),
        ([{"role": "system", "content": ""}], "no_messages_after_clean"),
    ],
)
def test_ultradata_drops(messages, reason):
    assert judged("ultradata", {"messages": messages}) == ("drop", [f"ultradata_{reason}"])


def test_ultradata_keeps_reasoning_that_is_there():
    answer = {"role": "assistant", "content": "<think>leak</think>It is 85.", "reasoning_content": "true one"}
    sample = profiled("ultradata", {"messages": [ASKED, answer]})
    assert sample.data["messages"][1] == {**answer, "content": "It is 85."}


def test_dolci_tooluse_converts_calls_tools_and_environment():
    sample = profiled("dolci_tooluse", {"messages": TALK})
    assert (sample.decision, sample.reasons) == ("keep", [])
    assert [message["role"] for message in sample.data["messages"]] == [
        "system", "user", "assistant", "tool", "assistant",
    ]  # fmt: skip
    assert sample.data["messages"][0]["content"] == "Be brief."
    (call,) = sample.data["messages"][2]["tool_calls"]
    assert call["function"] == {"name": "weather", "arguments": {"city": "Oslo", "days": [1, 2]}}
    assert json.loads(call["arguments"]) == call["function"]["arguments"]
    assert sample.data["tools"] == [{"type": "function", "function": {"name": "weather", "parameters": {}}}]
    assert (sample.data["tool_schema_format"], sample.buckets["tool_schema"]) == ("native_tools_v1", "native")
    assert 'weather {"city": "Oslo", "days": [1, 2]}' in sample.text()


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "empty_messages"),
        ([{**SYSTEM, "functions": "{}"}], "conversion_failed"),
        ([{**SYSTEM, "functions": [{}]}], "conversion_failed"),
        ([*TALK[:2], {**CALLS, "function_calls": "weather city"}], "conversion_failed"),
        ([*TALK[:2], {**CALLS, "function_calls": "weather(city=)"}], "conversion_failed"),
        ([*TALK, "x"], "bad_message"),
        ([*TALK, {"role": "narrator", "content": "x"}], "bad_role"),
        ([*TALK[:2], {"role": "assistant", "content": ""}], "empty_assistant"),
        ([*TALK[:2], {**CALLS, "function_calls": [{"function": {"name": "f", "arguments": "{}"}}]}],
         "bad_tool_call"),
        ([*TALK[1:2], SYSTEM], "system_not_first"),
        ([SYSTEM, TOLD], "invalid_assistant_order"),
        ([*TALK[:2], SEEN], "invalid_tool_order"),
    ],
)  # fmt: skip
def test_dolci_tooluse_drops(messages, reason):
    decision, reasons = judged("dolci_tooluse", {"messages": messages})
    assert (decision, reasons[-1]) == ("drop", f"dolci_tooluse_{reason}")


def test_dolci_tooluse_without_tools_is_for_review():
    decision, reasons = judged("dolci_tooluse", {"messages": TALK[1:]})
    assert (decision, reasons) == ("review", ["dolci_tooluse_missing_tools"])
    taught = {
        "role": "system",
        "content": "Put calls into <function_calls>.",
        "functions": [{"name": "weather"}],
    }
    sample = profiled("dolci_tooluse", {"messages": [taught, *TALK[1:]]})
    assert sample.data["messages"][0]["role"] == "user"
