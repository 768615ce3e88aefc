"""Dolci Think: conversations whose answers begin with their reasoning between <think> and </think>."""

import re
from collections import Counter
from typing import Any

from zgcm.config.profiles import Profile
from zgcm.corpus.messages import content_text
from zgcm.corpus.pipeline import Settings
from zgcm.corpus.sample import Sample

SOURCES = {
    "OpenThoughts3-full-filtered-math-decontam-v2": ("openthoughts_math", "math_reasoning"),
    "correct-python-sft-187k-x16-thoughts-filtered-decontam-v2": ("dolci_python_code", "code_reasoning"),
    "persona-precise-if-r1-final-content-filtered-chinese-filtered": ("persona_precise_if", "precise_if"),
    "if_qwq_reasoning_verified_filtered_decontam-v2": ("qwq_verified_if", "precise_if"),
    "nemotron-post-training-dataset-subset-ngram-filtered-no-tool-calls": (
        "nemotron_code_no_tool",
        "code_reasoning",
    ),
    "SYNTHETIC-2-SFT-cn-fltrd-final-ngram-filtered-chinese-filtered": (
        "synthetic2_verified",
        "code_basic_reasoning",
    ),
    "OpenThoughts3-full-filtered-science-decontam-v2": ("openthoughts_science", "science_reasoning"),
    "OpenThoughts3-full-filtered-code-subsampled-decontam-v2": ("openthoughts_code", "code_reasoning"),
}
"""Name of a collection without its owner -> label, ability."""

_TEMPLATE = re.compile(
    r"<\|(?:end_header_id|start_header_id|eot_id|messages|user|assistant|system|model|observation|endoftext)"
    r"[^|<>]*\|>|<\|im_(?:start|end)\|>|\[gMASK\]",
    re.IGNORECASE,
)
"""Of the first, forms that begin so are meant: `<|assistant_end|>` too."""
_WORD = re.compile(r"[A-Za-z0-9_]+|[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
REPEATED_WORDS, REPEATED_NGRAM, REPEATED_SHARE = 120, 5, 0.20
TOKENS_A_TURN = 4


def clean_dolci_think_record(sample: Sample, settings: Settings) -> None:
    data = sample.data
    origin = str(data.get("dataset_source") or "")
    known = SOURCES.get(origin.rpartition("/")[2])
    if known is None:
        sample.drop("dolci_think_not_target_source")
        return
    messages = data.get("messages")
    if not isinstance(messages, list) or not messages:
        sample.drop("dolci_think_bad_messages")
        return
    if not all(isinstance(message, dict) for message in messages):
        sample.drop("dolci_think_bad_message_object")
        return
    split = [_split(message) for message in messages]
    if reason := next((found for _, found in split if found), ""):
        sample.drop(f"dolci_think_{reason}")
        return
    cleaned = [message for message, _ in split]
    _judge_texts(sample, cleaned, settings)
    tokens = sum(map(_rough_tokens, cleaned))
    _judge_length(sample, tokens, settings)
    label, ability = known
    details = data.get("metadata")
    data |= {
        "messages": cleaned,
        "source": origin,
        "source_key": label,
        "ability": ability,
        "think_mode": "think",
        "metadata": {
            **(details if isinstance(details, dict) else {}),
            "rough_render_tokens": tokens,
            "source_label": label,
        },
    }
    sample.metrics["dolci_think_rough_tokens"] = float(tokens)
    sample.buckets["dolci_source"] = label


def _split(message: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """A message with its reasoning apart, and what is wrong with it or ""."""
    content = content_text(message.get("content"))
    if str(message.get("role") or "").casefold() != "assistant":
        return {**message, "content": content}, ""
    opened, closed = content.count("<think>"), content.count("</think>")
    if max(opened, closed) > 1:
        return message, "multiple_think_blocks"
    start, end = content.find("<think>"), content.find("</think>")
    if not opened or not closed or end < start:
        return message, "missing_complete_think"
    reasoning, answer = (
        content[start + len("<think>") : end].strip(),
        content[end + len("</think>") :].strip(),
    )
    if not reasoning:
        return message, "empty_think"
    if not answer:
        return message, "empty_visible_answer"
    return {**message, "content": answer, "reasoning_content": reasoning}, ""


def _judge_texts(sample: Sample, messages: list[dict[str, Any]], settings: Settings) -> None:
    judge = sample.drop if settings["dolci_think_strict"] else sample.review
    said = [text for message in messages for text in _texts(message)]
    if any(_TEMPLATE.search(text) for text in said):
        judge("dolci_think_template_token")
    answers = [message for message in messages if "reasoning_content" in message]
    if any(repeats(text) for message in answers for text in _texts(message)):
        judge("dolci_think_repetition")


def _judge_length(sample: Sample, tokens: int, settings: Settings) -> None:
    if tokens > settings["dolci_think_max_rough_tokens"]:
        sample.drop("dolci_think_over_length")
    elif tokens > settings["dolci_think_review_rough_tokens"]:
        sample.review("dolci_think_long_record")


def repeats(text: str) -> bool:
    """Whether more than a fifth of the five-word sequences occurred before; short texts never do."""
    words = _WORD.findall(text)
    if len(words) < REPEATED_WORDS:
        return False
    grams = Counter(zip(*(words[start:] for start in range(REPEATED_NGRAM)), strict=False))
    total = len(words) - REPEATED_NGRAM + 1
    return (total - len(grams)) / total > REPEATED_SHARE


def _rough_tokens(message: dict[str, Any]) -> int:
    turn = TOKENS_A_TURN if "reasoning_content" in message else 0
    return turn + sum(len(_WORD.findall(text)) for text in _texts(message))


def _texts(message: dict[str, Any]) -> list[str]:
    return [text for name in ("content", "reasoning_content") if isinstance(text := message.get(name), str)]


PROFILE = Profile(
    [clean_dolci_think_record],
    stages=["posttrain"],
    categories=["instruction"],
    settings={
        "dolci_think_strict": True,
        "dolci_think_max_rough_tokens": 32_768,
        "dolci_think_review_rough_tokens": 16_000,
    },
)
