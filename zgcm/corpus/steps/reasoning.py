"""Steps for worked reasoning."""

import re

from zgcm.corpus.messages import messages_of, said_by
from zgcm.corpus.pipeline import Settings, Step
from zgcm.corpus.sample import Sample
from zgcm.corpus.steps.posttrain import copy_absent, trains_on_messages

_ARTIFACT = re.compile(
    r"<\|(?:system|assistant|user|endoftext)[^>]*\|>|\[system prompt\]|api[ _]error", re.IGNORECASE
)
_CUE = re.compile(r"\b(?:because|therefore|first,|step\s*\d|we need to\b)|由于|因此|首先|步骤", re.IGNORECASE)


def normalize_reasoning_schema(sample: Sample, settings: Settings) -> None:
    copy_absent(sample, prompt="problem", response="reasoning")
    if trains_on_messages(sample):
        return
    data = sample.data
    if isinstance(data.get("problem"), str) and isinstance(data.get("reasoning"), str):
        sample.text_fields = ("problem", "reasoning")
        if isinstance(data.get("final_answer"), str):
            sample.text_fields += ("final_answer",)


def detect_control_artifacts(sample: Sample, settings: Settings) -> None:
    if _ARTIFACT.search(sample.text()):
        sample.review("control_or_prompt_artifact")


def validate_reasoning_signal(sample: Sample, settings: Settings) -> None:
    reasoning = _reasoning(sample)
    if not reasoning.strip():
        sample.drop("missing_reasoning")
        return
    if len(reasoning) < settings["reasoning_min_chars"] or not _CUE.search(reasoning):
        sample.review("weak_reasoning_signal")
    if not sample.first("final_answer", "answer"):
        sample.review("missing_final_answer")


def bucket_reasoning(sample: Sample, settings: Settings) -> None:
    data = sample.data
    origin = "teacher_rewrite" if data.get("teacher_model") else data.get("origin") or "raw"
    sample.buckets["origin"] = str(origin)
    sample.buckets["domain"] = str(sample.first("domain", "source_group") or "general")
    sample.buckets["verified"] = "verified" if data.get("verified") else "unverified"
    if "source_row_hash" in data:
        data.setdefault("lineage_hash", data["source_row_hash"])


def _reasoning(sample: Sample) -> str:
    if trains_on_messages(sample):
        return said_by(messages_of(sample.data), "assistant")
    return sample.string("reasoning")


STEPS: list[Step] = [
    normalize_reasoning_schema,
    detect_control_artifacts,
    validate_reasoning_signal,
    bucket_reasoning,
]
