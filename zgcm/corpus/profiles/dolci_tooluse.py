"""Dolci tool use: conversations with tools written as Python calls become messages with native tool calls."""

import json
import re
from typing import Any

from zgcm.config.profiles import Profile
from zgcm.corpus.messages import content_text
from zgcm.corpus.pipeline import Settings
from zgcm.corpus.pythonic import parse_calls
from zgcm.corpus.sample import Sample

ROLES = ("system", "user", "assistant", "tool")
FOLLOWS = {"assistant": ("user", "tool"), "tool": ("assistant", "tool")}
"""Role -> roles of the messages that it may follow."""
_TAGS = ("<functions>", "<function_calls>")
_PREAMBLE = re.compile(
    r"(?:You are an? (?:helpful )?function[- ]calling AI (?:model|assistant)\."
    r"|You do not (?:currently )?have access to any functions\."
    r"|You are provided with function signatures within <functions></functions> XML tags\."
    r"|You may call one or more functions to assist with the user query\."
    r"|Output any function calls within <function_calls></function_calls> XML tags\."
    r"|Do not make assumptions about what values to plug into functions\.)\s*"
)


def convert_dolci_tooluse_record(sample: Sample, settings: Settings) -> None:
    messages = sample.data.get("messages")
    if not isinstance(messages, list) or not messages:
        sample.drop("dolci_tooluse_empty_messages")
        return
    tools: list[Any] = []
    converted: list[Any] = []
    try:
        for raw in messages:
            if not isinstance(raw, dict):
                converted.append(raw)  # validation names it
                continue
            tools += _tools(raw) if raw.get("role") == "system" else []
            if (message := _message(raw)) is not None:
                converted.append(message)
    except (ValueError, TypeError, SyntaxError, RecursionError):
        sample.drop("dolci_tooluse_conversion_failed")
        return
    sample.data |= {"messages": converted, "tools": tools, "tool_schema_format": "native_tools_v1"}
    sample.buckets["tool_schema"] = "native"
    if not tools:
        sample.review("dolci_tooluse_missing_tools")


def validate_dolci_tooluse_record(sample: Sample, settings: Settings) -> None:
    before = ""
    for index, message in enumerate(sample.data["messages"]):
        if reason := _fault(message, index, before):
            sample.drop(f"dolci_tooluse_{reason}")
            return
        before = message["role"]


def _fault(message: Any, index: int, before: str) -> str:
    """What is wrong with a converted message, or ""."""
    if not isinstance(message, dict):
        return "bad_message"
    role, calls = message.get("role"), message.get("tool_calls") or []
    if role not in ROLES:
        return "bad_role"
    if role == "system":
        return "system_not_first" if index else ""
    if role == "assistant" and not message["content"] and not calls:
        return "empty_assistant"
    if not all(map(_is_call, calls)):
        return "bad_tool_call"
    if before not in FOLLOWS.get(role, (before,)):
        return f"invalid_{role}_order"
    return ""


def _is_call(call: Any) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    return (
        isinstance(function, dict)
        and bool(function.get("name"))
        and isinstance(function.get("arguments"), dict)
    )


def _tools(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The tool schemas of a system message. Raises ValueError for what is no list of named functions."""
    functions = message.get("functions")
    if isinstance(functions, str) and functions.strip():
        functions = json.loads(functions)
    if functions in (None, ""):
        return []
    if not isinstance(functions, list):
        raise ValueError("functions are no list")
    return [_tool(item) for item in functions]


def _tool(item: Any) -> dict[str, Any]:
    if isinstance(item, dict) and item.get("type") == "function" and isinstance(item.get("function"), dict):
        return item
    if isinstance(item, dict) and item.get("name"):
        return {"type": "function", "function": item}
    raise ValueError("a function without a name")


def _message(raw: dict[str, Any]) -> dict[str, Any] | None:
    """A message in the native form; None for a system message that only taught the old form."""
    role, content = raw.get("role"), content_text(raw.get("content"))
    if role == "system":
        content = _PREAMBLE.sub("", content).strip()
        keeps = content and not any(tag in content for tag in _TAGS)
        return {"role": role, "content": content} if keeps else None
    if role == "environment":
        return {"role": "tool", "content": content}
    given = raw.get("function_calls") if role == "assistant" else None
    if given in (None, "", []):
        return {"role": role, "content": content}
    calls = parse_calls(given)
    if not calls:
        if isinstance(given, str) and given.strip().casefold() in ("null", "none", ""):
            return {"role": role, "content": content}
        raise ValueError("function calls without a call")
    return {"role": role, "content": content, "tool_calls": calls}


PROFILE = Profile(
    [convert_dolci_tooluse_record, validate_dolci_tooluse_record],
    stages=["posttrain"],
    categories=["agentic"],
)
