"""Four small files, one for each way into the cleaner, through the verb: what is kept, dropped, rewritten."""

import json
from pathlib import Path
from typing import Any

import pytest

from zgcm.records import read_records, write_records

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
TALK = [
    {"role": "system", "content": "You may call functions."},
    {"role": "user", "content": "How is the weather in Oslo today?"},
    {"role": "assistant", "content": "", "function_calls": 'get_weather(city="Oslo")'},
    {"role": "environment", "content": '{"sky": "clear", "celsius": -4}'},
    {"role": "assistant", "content": "In Oslo the sky is clear today, at four degrees below zero."},
]
PROGRAM = "def add(left: int, right: int) -> int:\n    total = left + right\n    return total\n"
PAGE = (
    "The river rises in the hills, passes three villages and two mills, and meets the sea near the old port. "
)


def example(name: str) -> tuple[list[dict[str, Any]], list[str], str]:
    """Rows, options, and the profile if any."""
    if name == "instruction":
        rows = [
            {
                "id": "1",
                "instruction": "Name three primary colours of light.",
                "output": "Red, green and blue.",
            },
            {"id": "2", "instruction": "Name the largest planet of the solar system.", "output": ""},
        ]
        return rows, ["instruction", "posttrain"], ""
    if name == "gharchive":
        rows = [
            {"id": "1", "repo": "a/b", "path": "src/add.py", "content": PROGRAM},
            {"id": "2", "repo": "a/b", "path": "vendor/lib/add.py", "content": PROGRAM.replace("add", "sum")},
        ]
        return rows, ["code", "pretrain"], name
    if name == "web_knowledge":
        rows = [
            {"id": "1", "text": PAGE * 6, "score": 4.2, "token_count": 128},
            {"id": "2", "text": PAGE.replace("river", "road") * 5, "score": 2.4, "token_count": 96},
        ]
        return rows, ["web", "midtrain"], name
    row = {"id": "1", "messages": TALK, "tools": json.dumps([TOOL])}
    return [row], ["agentic", "posttrain"], "dolci_tooluse"


@pytest.mark.parametrize(
    ("name", "kept"),
    [("instruction", ["1"]), ("gharchive", ["1"]), ("web_knowledge", ["1", "2"]), ("dolci_tooluse", ["1"])],
)
def test_examples_end_as_expected(call, tmp_path, name, kept):
    rows, (category, stage), profile = example(name)
    path, settings = tmp_path / f"{name}.jsonl", tmp_path / "settings.yaml"
    write_records(path, rows)
    settings.write_text(f"profile: {profile or 'null'}\n")
    command = ("clean", path, "--category", category, "--stage", stage, "--settings", settings)
    summary = json.loads(call(*command, "--output", tmp_path / "out", "--json").stdout)
    out = list(read_records(Path(tmp_path / "out" / f"{name}.jsonl.zst")))
    assert [record["source_id"] for record in out] == kept
    assert summary["in"] == len(rows) == summary["kept"] + summary["review"] + summary["dropped"]
    assert {record["decision"] for record in out} <= {"keep", "review"}
    assert (summary["written"], summary["rejected"]) == (len(kept), 0)
    if name == "dolci_tooluse":
        roles = [message["role"] for message in out[0]["data"]["messages"]]
        (tool_call,) = out[0]["data"]["messages"][2]["tool_calls"]
        assert roles == ["system", "user", "assistant", "tool", "assistant"]
        assert tool_call["function"]["name"] == "get_weather"
