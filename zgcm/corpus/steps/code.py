"""Steps for source code."""

import re

from zgcm.corpus.pipeline import Settings, Step
from zgcm.corpus.sample import Sample
from zgcm.corpus.steps.common import metadata

_GENERATED = re.compile("generated file|do not edit|auto-generated|auto generated", re.IGNORECASE)
_SIGNAL = re.compile(r"[{}();]|\b(?:def|class|function|import|package|SELECT|FROM)\b")
_GENERATED_WITHIN = 4096
_FIM = ("prefix", "middle", "suffix")


def normalize_code_schema(sample: Sample, settings: Settings) -> None:
    data = sample.data
    if data.get("content") is not None and data.get("text") is None:
        data["text"] = data["content"]
        sample.text_fields = tuple("text" if name == "content" else name for name in sample.text_fields)
    sample.buckets.setdefault("subtype", str(data.get("subtype") or "code"))


def classify_code_language(sample: Sample, settings: Settings) -> None:
    language = sample.data.get("language") or metadata(sample).get("language") or "unknown"
    sample.buckets["language"] = str(language)


def filter_non_source_assets(sample: Sample, settings: Settings) -> None:
    path = str(sample.first("path", "file_path") or "").casefold().replace("\\", "/")
    if any(_lies_in(path, part.casefold()) for part in settings["code_denied_path_parts"]):
        sample.drop("non_core_or_vendored_file")
    elif _GENERATED.search(sample.text()[:_GENERATED_WITHIN]):
        sample.review("possibly_generated_code")


def _lies_in(path: str, part: str) -> bool:
    """`vendor/` is a directory of that whole name, `.map` an ending; anything else may stand anywhere."""
    if part.endswith("/"):
        return f"/{part.lstrip('/')}" in f"/{path}"
    return path.endswith(part) if part.startswith(".") else part in path


def validate_code_signal(sample: Sample, settings: Settings) -> None:
    text = sample.text()
    if text.count("\n") < 2 and not _SIGNAL.search(text):
        sample.review("weak_code_signal")
    if all(sample.data.get(name) is None for name in _FIM):
        return
    if all(sample.string(name) for name in _FIM):
        sample.buckets["subtype"] = "fim"
    else:
        sample.drop("incomplete_fim_triplet")


def bucket_code_task(sample: Sample, settings: Settings) -> None:
    if sample.first("patch", "diff"):
        sample.buckets["subtype"] = "patch"
    elif sample.data.get("prompt") and sample.data.get("completion"):
        sample.buckets["subtype"] = "code_qa"
    sample.buckets["verified"] = "verified" if sample.first("verified", "tests_passed") else "unverified"


STEPS: list[Step] = [
    normalize_code_schema,
    classify_code_language,
    filter_non_source_assets,
    validate_code_signal,
    bucket_code_task,
]
