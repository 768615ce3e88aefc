"""Conversations in one form: roles, reasoning apart from the answer, tool arguments as JSON."""

import re
from typing import Any

from zgcm.corpus.messages import Message, content_text, json_text, messages_of
from zgcm.corpus.pipeline import Settings, Step
from zgcm.corpus.sample import Sample

_ROLES = {"human": "user", "gpt": "assistant", "model": "assistant", "function": "tool", "": "unknown"}
_SHAREGPT = {"from": "role", "value": "content"}
"""The other wide-spread form of messages, from which the role names human and gpt come."""
_THINK = re.compile("<think>(.*?)</think>", re.IGNORECASE | re.DOTALL)


def normalize_messages(sample: Sample, settings: Settings) -> None:
    if not isinstance(sample.data.get("messages"), list):
        return
    messages = [_message(item) for item in messages_of(sample.data)]
    sample.data["messages"] = messages
    sample.metrics["turns"] = float(len(messages))


def normalize_tool_calls(sample: Sample, settings: Settings) -> None:
    for message in messages_of(sample.data):
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            message["tool_calls"] = [_tool_call(call) for call in calls if isinstance(call, dict)]


def trains_on_messages(sample: Sample) -> bool:
    """Whether the record is a conversation of the post-training stage, which is judged by its messages."""
    return sample.stage == "posttrain" and bool(messages_of(sample.data))


def copy_absent(sample: Sample, **names: str) -> None:
    """For each `raw="canonical"`: copy the field where only the raw one exists."""
    for raw, canonical in names.items():
        if raw in sample.data and sample.data.get(canonical) is None:
            sample.data[canonical] = sample.data[raw]


def _message(raw: Message) -> Message:
    message = dict(raw)
    for old, name in _SHAREGPT.items():
        if old in message and name not in message:
            message[name] = message.pop(old)
    role = str(message.get("role") or "").casefold()
    message["role"] = _ROLES.get(role, role)
    content = message.get("content")
    if content is not None and not isinstance(content, str):
        content = message["content"] = content_text(content)
    if message["role"] == "assistant" and content and (thought := _THINK.search(content)):
        reasoning = thought[1].strip()
        if reasoning and not message.get("reasoning_content"):
            message["reasoning_content"] = reasoning
        message["content"] = _THINK.sub("", content).strip()
    return message


def _tool_call(raw: dict[str, Any]) -> dict[str, Any]:
    call = dict(raw)
    inner = call.get("function")
    if isinstance(inner, dict):
        for key in ("name", "arguments"):
            if key in inner:
                call.setdefault(key, inner[key])
    arguments = call.get("arguments")
    if arguments is not None and not isinstance(arguments, str):
        call["arguments"] = json_text(arguments)
    return call


STEPS: list[Step] = [normalize_messages, normalize_tool_calls]
