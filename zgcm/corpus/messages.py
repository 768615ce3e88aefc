"""Conversations as text: what length, duplicates and the scan for secrets see of `messages`.

The published cleaner looks at `content` only. Reasoning and tool calls are trained on too, so here they
count.
"""

import json
from collections.abc import Sequence
from typing import Any

from zgcm.records import training_text

Message = dict[str, Any]


def messages_of(data: dict[str, Any], *names: str) -> list[Message]:
    """The objects of the first non-empty list among the fields `names` (default: messages)."""
    for name in names or ("messages",):
        value = data.get(name)
        if isinstance(value, list) and value:
            return [item for item in value if isinstance(item, dict)]
    return []


def messages_text(messages: list[Message]) -> str:
    """Lines `role: reasoning content tool-calls`, one message after the other; silent messages left out."""
    lines = []
    for message in messages:
        spoken = said(message)
        if spoken:
            lines.append(f"{message.get('role') or ''}: {spoken}")
    return "\n".join(lines)


def said(message: Message) -> str:
    """Everything in a message that is trained on: reasoning, content, tool calls as JSON."""
    calls = message.get("tool_calls")
    texts = [content_text(message.get("reasoning_content")), content_text(message.get("content"))]
    texts += [tool_call_text(call) for call in (calls if isinstance(calls, list) else [])]
    return "\n".join(text for text in texts if text)


def content_text(content: Any) -> str:
    """The text of a message's content; of a list of parts, their texts; of anything else, its JSON."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(map(_part_text, content))
    return json_text(content)


def _part_text(part: Any) -> str:
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return str(part["text"])
    return part if isinstance(part, str) else json_text(part)


def trained_text(data: dict[str, Any], text_fields: Sequence[str]) -> str:
    """All that a record trains on: what is said in its conversation where it has one, else its text fields.
    Of one decision of a trace that is its whole state too; its `text` is only what is new."""
    return messages_text(messages_of(data)) or training_text(data, list(text_fields))


def said_by(messages: list[Message], *roles: str) -> str:
    return "\n".join(text for item in messages if item.get("role") in roles and (text := said(item)))


def tool_call_text(call: Any) -> str:
    """The name and arguments of a call as JSON, whichever of the two published places they stand in."""
    if not isinstance(call, dict):
        return str(call)
    inner = call.get("function")
    inner = inner if isinstance(inner, dict) else {}
    name = call.get("name") or inner.get("name") or ""
    arguments = call.get("arguments", inner.get("arguments"))
    if not isinstance(arguments, str):
        arguments = json_text(arguments)
    return f"{name} {arguments}"


def json_text(value: Any) -> str:
    """JSON for arguments: keys in their order, non-ASCII left as it is."""
    return json.dumps(value, ensure_ascii=False, default=str)
