"""What a cleaned record contributes to training: its text fields joined, or its conversation."""

from typing import Any

Message = dict[str, Any]


def record_text(record: dict[str, Any]) -> str:
    """Those `text_fields` of `data` that are non-empty strings, joined by a newline (fact sheet 1.1)."""
    values = (record["data"].get(field) for field in record.get("text_fields", ["text"]))
    return "\n".join(value for value in values if isinstance(value, str) and value)


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
