"""Steps that every record passes: text form, integrity, provenance, secrets, quality, length."""

import hashlib
import math
from typing import Any

from zgcm.corpus.messages import messages_of, messages_text
from zgcm.corpus.pipeline import Settings, Step
from zgcm.corpus.sample import DROP, KEEP, Sample
from zgcm.corpus.steps.sensitive import scan_sensitive_content
from zgcm.corpus.text import code_form, comparison_form, is_settled, prose_form


def normalize_schema_text(sample: Sample, settings: Settings) -> None:
    """Bring the text into its normal form. A conversation's is rendered first, in every stage: `messages` are
    what is trained on, so lengths, duplicates and secrets are judged by them, reasoning and calls too."""
    if messages := messages_of(sample.data):
        rendered = messages_text(messages)
        if rendered or sample.stage == "posttrain":  # elsewhere `messages` may be another thing: of commits
            sample.data["text"] = rendered
            sample.text_fields = ("text",)
    form = code_form if sample.category == "code" else prose_form
    for name in sample.text_fields:
        value = sample.data.get(name)
        if isinstance(value, str):
            sample.data[name] = normal = form(value)
            if form is prose_form and "```" not in normal and is_settled(normal):
                sample.normal_text = normal


def validate_basic_integrity(sample: Sample, settings: Settings) -> None:
    text = sample.text()
    if not text:
        sample.drop("empty_training_text")
    elif len(text) < settings["min_chars"]:
        sample.drop("too_short")
    elif len(text) > settings["max_chars"]:
        sample.review("too_long")


def validate_provenance(sample: Sample, settings: Settings) -> None:
    if settings["require_license"] and not (sample.data.get("license") or metadata(sample).get("license")):
        sample.review("missing_license", flag=True)
    if not sample.data.get("source"):
        sample.review("missing_source", flag=True)


def apply_quality_policy(sample: Sample, settings: Settings) -> None:
    """Judge a record by scores that came with it, by the rules of zgcm.config.corpus.QualityPolicy."""
    policies = settings["quality_policies"]
    policy = _policy(sample, policies) if policies else None
    if policy is None:
        return
    score = number(sample.data.get(policy["score_field"]))
    if score is not None:
        sample.metrics["quality_score"] = score
        if (minimum := policy["review_min"]) is not None and score < minimum:
            sample.drop("quality_score_below_drop_threshold")
        elif (minimum := policy["keep_min"]) is not None and score < minimum:
            sample.review("quality_score_below_keep_threshold")
    elif policy["require_score"]:
        sample.review("missing_quality_score", flag=True)

    error = number(sample.data.get(policy["hard_error_field"]))
    if error is not None:
        sample.metrics["hard_error_score"] = error
        if error > policy["hard_error_max"]:
            sample.drop("hard_error_score_exceeded")


def _policy(sample: Sample, policies: dict[str, Any]) -> dict[str, Any] | None:
    """The policy of the record's source_key, source or dataset, else of its category, else the default."""
    own = str(sample.first("source_key", "source") or sample.dataset)
    return next((policies[key] for key in (own, sample.category, "default") if key in policies), None)


def stamp_text_digest(sample: Sample, settings: Settings) -> None:
    """`data.text_sha256`, as the published exact deduplication leaves it. Duplicates themselves are found
    per mix, across shards and sources, by the fingerprints; a cleaner of one shard cannot see them."""
    if "text_sha256" not in sample.data:
        text = sample.text()
        compared = text.casefold() if text is sample.normal_text else comparison_form(text)
        digest = hashlib.sha256(compared.encode("utf-8", "surrogatepass"))
        sample.data["text_sha256"] = digest.hexdigest()


def estimate_tokens_and_length_bucket(sample: Sample, settings: Settings) -> None:
    """Four characters a token: the estimate labels records; mixes count with the training tokenizer."""
    tokens = max(1, (len(sample.text()) + 3) // 4)
    sample.metrics["estimated_tokens"] = float(tokens)
    sample.buckets["length"] = length_bucket(tokens, settings["length_buckets"])


def finalize_quality_bucket(sample: Sample, settings: Settings) -> None:
    label = {KEEP: "main", DROP: "drop"}.get(sample.decision, "review")
    sample.buckets.setdefault("quality", label)


def length_bucket(tokens: int, boundaries: list[int]) -> str:
    """`1_2048`, `2049_8192`, …, `gt_65536`: the first boundary that is at least `tokens`."""
    lower = 0
    for upper in sorted(set(boundaries)):
        if tokens <= upper:
            return f"{lower + 1}_{upper}"
        lower = upper
    return f"gt_{lower}"


def metadata(sample: Sample) -> dict[str, Any]:
    value = sample.data.get("metadata")
    return value if isinstance(value, dict) else {}


def number(value: Any) -> float | None:
    """A finite number, or a string that is one; anything else, booleans too, is None."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        known = float(value)
    except (ValueError, OverflowError):
        return None
    return known if math.isfinite(known) else None


PREFIX: list[Step] = [
    normalize_schema_text,
    validate_basic_integrity,
    validate_provenance,
    scan_sensitive_content,
]
SUFFIX: list[Step] = [
    apply_quality_policy,
    stamp_text_digest,
    estimate_tokens_and_length_bucket,
    finalize_quality_bucket,
]
