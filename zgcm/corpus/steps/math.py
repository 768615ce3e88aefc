"""Steps for problems with solutions."""

import re

from zgcm.corpus.messages import messages_of, said_by
from zgcm.corpus.pipeline import Settings, Step
from zgcm.corpus.sample import Sample
from zgcm.corpus.steps.posttrain import copy_absent, trains_on_messages

_FIGURE = re.compile(r"<img|\S\.(?:png|jpe?g|gif|svg)\b|\\includegraphics|see (?:the )?figure", re.IGNORECASE)
_ANSWER = re.compile(r"final answer|answer\s*[:：]|\b(?:therefore|thus)\b|\\boxed\{|答案|所以", re.IGNORECASE)


def normalize_math_schema(sample: Sample, settings: Settings) -> None:
    copy_absent(sample, problem="question", response="solution")
    if trains_on_messages(sample):
        return
    if isinstance(sample.data.get("question"), str) and isinstance(sample.data.get("solution"), str):
        sample.text_fields = ("question", "solution")


def validate_problem_solution(sample: Sample, settings: Settings) -> None:
    question, solution = _problem(sample)
    if not question.strip() or not solution.strip():
        sample.drop("missing_problem_or_solution")
    elif _FIGURE.search(f"{question}\n{solution}") and not sample.data.get("image_text"):
        sample.review("missing_multimodal_context")


def validate_math_answer_signal(sample: Sample, settings: Settings) -> None:
    _, solution = _problem(sample)
    if len(solution) < settings["math_min_solution_chars"]:
        sample.review("solution_too_short")
    if not _ANSWER.search(solution) and not sample.data.get("answer"):
        sample.review("missing_final_answer_signal")
    verified = sample.data.get("verified")
    sample.buckets["verified"] = (
        "verified" if verified is True else "failed" if verified is False else "unknown"
    )
    if verified is False:
        sample.review("verifier_failed")


def bucket_math(sample: Sample, settings: Settings) -> None:
    data = sample.data
    sample.buckets["form"] = str(data.get("form") or ("textbook" if data.get("chapter") else "qa"))
    sample.buckets["difficulty"] = str(data.get("difficulty") or "unknown")
    sample.buckets["domain"] = str(sample.first("domain", "subject") or "math")


def _problem(sample: Sample) -> tuple[str, str]:
    """Question and solution; of a conversation, what the user and what the assistant said."""
    if trains_on_messages(sample):
        messages = messages_of(sample.data)
        return said_by(messages, "user"), said_by(messages, "assistant")
    return sample.string("question"), sample.string("solution")


STEPS: list[Step] = [
    normalize_math_schema,
    validate_problem_solution,
    validate_math_answer_signal,
    bucket_math,
]
