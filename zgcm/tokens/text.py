"""What a cleaned record contributes to training: its text fields joined, or its conversation."""

from typing import Any

from zgcm.records import training_text

Message = dict[str, Any]


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
