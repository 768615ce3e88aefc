"""Steps for traces of agents that call tools."""

import re

from zgcm.corpus.messages import Message, messages_of, messages_text, said
from zgcm.corpus.pipeline import Settings, Step
from zgcm.corpus.sample import Sample

_CALLING = {"assistant_tool", "tool_call"}
_OBSERVING = {"tool", "tool_response", "observation"}
_FAILED = re.compile("exit due to|permission denied|tool error|timed out", re.IGNORECASE)
_SUCCEEDED = re.compile(
    r"\b(?:submitted|tests passed|task completed|success(?:ful|fully)?)\b"
    r"(?!['\"]?\s*[:=]\s*(?:false|no|0)\b)",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"(?:\b(?:not|no|never|without|cannot|0|zero)|n['’]t)(?:[ \t]+\w+){0,2}[ \t]+$", re.IGNORECASE
)
_DENIED_WITHIN = 40
"""Characters before a success marker in which its denial is looked for: a negation and two words."""


def normalize_agentic_schema(sample: Sample, settings: Settings) -> None:
    data, messages = sample.data, _messages(sample)
    if messages and not isinstance(data.get("text"), str):
        data["text"] = messages_text(messages)
        sample.text_fields = ("text",)
    if not messages and isinstance(data.get("text"), str) and not data.get("pre_rendered_agent_trace"):
        sample.review("unstructured_agent_trace")
    sample.metrics["turns"] = float(len(messages))
    sample.buckets.setdefault("subtype", str(data.get("sample_type") or "trajectory"))


def validate_role_order(sample: Sample, settings: Settings) -> None:
    roles = [_role(message) for message in _messages(sample)]
    if not roles:
        return
    if roles[0] not in ("system", "user"):
        sample.review("invalid_first_role")
    if not all(roles):
        sample.drop("missing_message_role")


def validate_tool_call_pairs(sample: Sample, settings: Settings) -> None:
    if sample.data.get("pre_rendered_agent_trace"):
        return
    calls = observations = pending = 0
    for message in _messages(sample):
        if message.get("tool_calls") or _role(message) in _CALLING:
            calls += 1
            pending += 1
        elif _role(message) in _OBSERVING:
            observations += 1
            pending = max(0, pending - 1)
    sample.metrics["tool_calls"] = float(calls)
    sample.metrics["tool_observations"] = float(observations)
    if calls == 0:
        sample.review("no_tool_call")
    elif pending:
        sample.review("unpaired_tool_call")


def detect_trajectory_outcome(sample: Sample, settings: Settings) -> None:
    """The outcome as agent and tools tell it; what a system prompt or user asks for is none."""
    spoken = [said(message) for message in _messages(sample) if _role(message) not in ("system", "user")]
    text = "\n".join(spoken) if spoken else sample.text()
    verified = bool(sample.first("verified", "tests_passed")) or tells_success(text)
    failed = bool(_FAILED.search(text))
    sample.buckets["outcome"] = "verified" if verified else "failed" if failed else "weak"
    if failed and not verified:
        sample.review("failed_or_environment_trajectory")


def tells_success(text: str) -> bool:
    """Whether a success marker stands in the text, as a word and undenied: "unsuccessful" is none, nor is
    "not submitted"."""
    return any(
        not _DENIED.search(text[max(0, found.start() - _DENIED_WITHIN) : found.start()])
        for found in _SUCCEEDED.finditer(text)
    )


def bucket_agentic(sample: Sample, settings: Settings) -> None:
    names = sample.first("tool_names", "target_tools")
    if isinstance(names, list):
        sample.buckets["tool_family"] = ",".join(sorted({str(name) for name in names}))
    else:
        sample.buckets.setdefault("tool_family", "unknown")


def _messages(sample: Sample) -> list[Message]:
    return messages_of(sample.data, "messages", "trajectory")


def _role(message: Message) -> str:
    return str(message.get("role") or "")


STEPS: list[Step] = [
    normalize_agentic_schema,
    validate_role_order,
    validate_tool_call_pairs,
    detect_trajectory_outcome,
    bucket_agentic,
]
