"""Traces of agents become samples of a Markov decision process, learned on their action alone."""

from pathlib import Path

import pytest
from support import recipe_with

import zgcm.tokens
from zgcm.corpus.clean import clean_shard, summary_line
from zgcm.corpus.decisions import cut_middle
from zgcm.errors import ZgcmError
from zgcm.layout import Layout
from zgcm.records import read_records, record_sha256, write_records
from zgcm.tokens.chat import assistant_spans


def call(number: int) -> dict:
    return {"role": "assistant", "content": None, "reasoning_content": f"thought {number}",
            "tool_calls": [{"name": "run", "arguments": f'{{"number": {number}}}'}]}  # fmt: skip


def result(number: int) -> dict:
    return {"role": "tool", "content": f"output of call {number}: " + "x" * 40 + f" end {number}"}


TRACE = [
    {"role": "system", "content": "You are an agent."}, {"role": "user", "content": "Mend the failing test."},
    call(0), result(0), call(1), result(1), call(2), result(2),
    {"role": "assistant", "content": "Done: tests passed."},
]  # fmt: skip


def cleaned(tmp_path, rows, **source):
    raw, layout = tmp_path / "raw.jsonl", Layout(tmp_path / "results")
    write_records(raw, rows)
    recipe = recipe_with({"kind": "files", "files": [str(raw)], "stage": "posttrain", "category": "agentic",
                          **source})  # fmt: skip
    summary = clean_shard(recipe, layout, "mine", "00000")
    return summary, list(read_records(layout.cleaned("mine", "00000")))


def test_one_sample_a_decision_linked_to_its_trace(tmp_path):
    summary, records = cleaned(tmp_path, [{"id": "t", "messages": TRACE, "repo": "r"}], mdp={})
    assert (summary["in"], summary["kept"], summary["written"]) == (1, 1, 4)
    assert summary_line(summary) == "mine 00000: 1 records in, 1 kept, 4 samples written"
    assert [record["source_id"] for record in records] == ["t#0", "t#1", "t#2", "t#3"]
    assert [record["data"]["step"] for record in records] == [0, 1, 2, 3]
    assert [record["data"]["previous"] for record in records] == [None, "t#0", "t#1", "t#2"]
    assert {
        (record["data"]["trace_id"], record["data"]["steps"], record["data"]["repo"]) for record in records
    } == {("t", 4, "r")}
    for step, record in enumerate(records):
        *state, action = record["data"]["messages"]
        assert action["role"] == "assistant" and "weight" not in action
        assert len(state) == 2 + 2 * step
        assert all(item["weight"] == 0 for item in state if item["role"] == "assistant")
        assert record["record_sha256"] == record_sha256(record["data"])
        assert record["metrics"]["turns"] == 3.0 + 2 * step
    assert "Mend the failing test" in records[0]["data"]["text"]
    assert records[1]["data"]["text"].startswith("tool: output of call 0")
    assert "output of call 0" not in records[2]["data"]["text"]
    assert len({record["data"]["text_sha256"] for record in records}) == 4
    lengths = [record["metrics"]["estimated_tokens"] for record in records]
    assert lengths == sorted(lengths) and lengths[0] < lengths[-1]


def test_only_the_action_is_learned(tmp_path):
    _, records = cleaned(tmp_path, [{"id": "t", "messages": TRACE}], mdp={})
    for step, record in enumerate(records):
        text, spans = assistant_spans(record["data"]["messages"], Path(zgcm.tokens.__file__).parent)
        ((start, end),) = spans
        assert end == len(text)
        assert (f"thought {step}" if step < 3 else "Done: tests passed.") in text[start:end]
        assert f"thought {step - 1}" not in text[start:end]


def test_window_keeps_the_task_and_the_latest_decisions(tmp_path):
    _, records = cleaned(tmp_path, [{"id": "t", "messages": TRACE}], mdp={"window": 1})
    last = records[-1]["data"]["messages"]
    assert [item["role"] for item in last] == ["system", "user", "assistant", "tool", "assistant"]
    assert last[2]["reasoning_content"] == "thought 2"


def test_long_observations_lose_their_middle(tmp_path):
    _, records = cleaned(tmp_path, [{"id": "t", "messages": TRACE}], mdp={"observation_chars": 30})
    seen = records[1]["data"]["messages"][3]["content"]
    assert seen.startswith("output of call ") and seen.endswith(" end 0") and "characters cut]" in seen
    assert records[0]["data"]["messages"][1] == TRACE[1]
    assert cut_middle("abcdefgh", 8) == "abcdefgh"
    assert cut_middle("abcdefgh", 3) == "ab\n[5 characters cut]\nh"


def test_counts_add_up_over_several_traces(tmp_path):
    rows = [
        {"id": "a", "messages": TRACE},
        {"id": "b", "messages": TRACE[:4]},
        {"id": "c", "messages": []},
        {"id": "d", "text": "A trace that was rendered as one text.", "pre_rendered_agent_trace": True},
    ]
    summary, records = cleaned(tmp_path, rows, mdp={"window": 2})
    assert summary["in"] == 4 == summary["kept"] + summary["review"] + summary["dropped"]
    assert summary["written"] == len(records) == 4 + 1 + 1
    assert summary["characters"] == sum(len(record["data"]["text"]) for record in records)
    without, whole = cleaned(tmp_path, rows)
    assert without["written"] == len(whole) == without["kept"] + without["review"]


def test_only_agentic_sources_have_decisions():
    with pytest.raises(ZgcmError, match="category: agentic"):
        recipe_with(
            {"kind": "files", "files": ["x.jsonl"], "stage": "posttrain", "category": "math", "mdp": {}}
        )
