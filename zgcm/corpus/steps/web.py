"""Steps for web text and web questions."""

import re

from zgcm.corpus.pipeline import Settings, Step
from zgcm.corpus.sample import Sample
from zgcm.corpus.steps.common import number
from zgcm.corpus.steps.posttrain import trains_on_messages

MIN_UNIQUE_LINES = 0.45
_BOILERPLATE = re.compile(
    r"\b(?:cookie policy|accept all cookies|privacy policy|sign in|subscribe now)\b", re.IGNORECASE
)
_UNKNOWN = re.compile(r"\s*(?:unknown|na|n/a|i don'?t know|无法回答|不知道)\s*[.!。！]?\s*", re.IGNORECASE)


def normalize_web_schema(sample: Sample, settings: Settings) -> None:
    question_and_answer = isinstance(sample.data.get("question"), str) and isinstance(
        sample.data.get("answer"), str
    )
    if question_and_answer and not trains_on_messages(sample):
        sample.text_fields = ("question", "answer")
        sample.buckets["subtype"] = "web_qa"
    else:
        sample.buckets.setdefault("subtype", "web_text")


def filter_web_boilerplate(sample: Sample, settings: Settings) -> None:
    text = sample.text()
    if boilerplate_count(text) >= settings["web_boilerplate_limit"]:
        sample.review("web_boilerplate")
    lines = [stripped for line in text.split("\n") if (stripped := line.strip())]
    if lines and len(set(lines)) / len(lines) < MIN_UNIQUE_LINES:
        sample.drop("repetitive_web_text")


def boilerplate_count(text: str) -> int:
    """How often phrases of cookie banners and sign-up boxes stand in a text."""
    return len(_BOILERPLATE.findall(text))


def validate_web_qa(sample: Sample, settings: Settings) -> None:
    if sample.buckets.get("subtype") != "web_qa":
        return
    question, answer = sample.string("question"), sample.string("answer")
    if len(question.strip()) < 4 or not answer.strip():
        sample.drop("incomplete_qa_pair")
    elif _UNKNOWN.fullmatch(answer.split("\n", 1)[0]):
        sample.drop("unknown_answer")
    if sample.data.get("grounded") is False:
        sample.review("ungrounded_answer")


def bucket_web(sample: Sample, settings: Settings) -> None:
    sample.buckets["topic"] = str(sample.first("topic_top1", "topic") or "unknown")
    score = number(sample.data.get("quality_score"))
    if score is not None:
        sample.buckets["model_quality"] = "high" if score >= 0.8 else "medium" if score >= 0.5 else "low"


STEPS: list[Step] = [normalize_web_schema, filter_web_boilerplate, validate_web_qa, bucket_web]
