"""What a cleaned record contributes to training: its text fields joined, or its conversation."""

from collections.abc import Sequence
from typing import Any

from zgcm.records import training_text

Message = dict[str, Any]


ASKING = ("user", "tool", "observation")
"""Roles that an assistant's turn answers; turns that answer none are not learned."""
OBSERVING = ("tool", "observation")
CONTEXT = 0
"""`weight` of a turn that is context only, as in other formats of fine-tuning data."""


def answering_turns(messages: Sequence[Message]) -> list[int]:
    """Indices of the assistant's turns that answer a user or a tool."""
    return [
        index
        for index, message in enumerate(messages)
        if index and message.get("role") == "assistant" and messages[index - 1].get("role") in ASKING
    ]


def record_text(record: dict[str, Any]) -> str:
    """The training text of a document."""
    return training_text(record["data"], record["text_fields"])


def record_messages(record: dict[str, Any]) -> list[Message] | None:
    """The conversation of a record, or None for a document."""
    messages = record["data"].get("messages")
    return messages if isinstance(messages, list) and messages else None


def plain_text(record: dict[str, Any]) -> str:
    """Text without any markup of turns, for training a tokenizer and for counting."""
    messages = record_messages(record)
    if messages is None:
        return record_text(record)
    parts = (message.get(key) for message in messages for key in ("reasoning_content", "content"))
    return "\n".join(part for part in parts if isinstance(part, str) and part)
