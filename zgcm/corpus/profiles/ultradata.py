"""UltraData: conversations, some with the template tokens of other models or with reasoning in the answer."""

import re
from typing import Any

from zgcm.config.profiles import Profile
from zgcm.corpus.messages import content_text
from zgcm.corpus.pipeline import Settings
from zgcm.corpus.sample import Sample

FOREIGN = ("<|end_header_id|>", "<|start_header_id|>", "<|model|>", "<|messages|>", "<|im_start|>",
           "<|im_end|>", "<|eot_id|>")  # fmt: skip
REASONING = ("reasoning_content", "reasoning")
_TAG = re.compile("</?think>", re.IGNORECASE)


def clean_ultradata_record(sample: Sample, settings: Settings) -> None:
    messages = sample.data.get("messages")
    if not isinstance(messages, list):
        sample.drop("ultradata_bad_messages")
        return
    if not all(isinstance(message, dict) for message in messages):
        sample.drop("ultradata_non_dict_message")
        return
    if any(_is_foreign(message) for message in messages):
        sample.drop("ultradata_foreign_chat_template_token")
        return
    cleaned = []
    for raw in messages:
        message = dict(raw)
        role = str(message.get("role") or "").casefold()
        if role == "system" and not content_text(message.get("content")).strip():
            sample.flags.add("ultradata_removed_empty_system")
            continue
        if role == "assistant":
            _repair_answer(sample, message)
        _strip_reasoning(sample, message)
        cleaned.append(message)
    sample.data["messages"] = cleaned
    sample.buckets["format_profile"] = "ultradata"
    if not cleaned:
        sample.drop("ultradata_no_messages_after_clean")


def _is_foreign(message: dict[str, Any]) -> bool:
    texts = (content_text(message.get(name)) for name in ("content", *REASONING))
    return any(token in text for text in texts for token in FOREIGN)


def _repair_answer(sample: Sample, message: dict[str, Any]) -> None:
    """An answer is what follows the last closing tag. What stood before becomes the message's reasoning if it
    has none: thrown away, as published, it would leave an answer without its reasons."""
    content = message.get("content")
    if not isinstance(content, str) or not _TAG.search(content):
        return
    sample.flags.add("ultradata_repaired_visible_think_leak")
    *_, last = _TAG.finditer(content)
    before, after = content[: last.start()], content[last.end() :].strip()
    hidden = ""
    if last[0].startswith("</") and after:
        answer, hidden = after, _TAG.sub("", before).strip()
    else:
        answer = _TAG.sub("", content).strip()
    message["content"] = answer
    if hidden and not any(message.get(name) for name in REASONING):
        message["reasoning_content"] = hidden
    if not answer:
        sample.drop("ultradata_empty_after_think_repair")


def _strip_reasoning(sample: Sample, message: dict[str, Any]) -> None:
    for name in REASONING:
        value = message.get(name)
        if isinstance(value, str) and _TAG.search(value):
            message[name] = _TAG.sub("", value).strip()
            sample.flags.add(f"ultradata_stripped_{name}_tag")


PROFILE = Profile([clean_ultradata_record], stages=["posttrain"], categories=["instruction"])
