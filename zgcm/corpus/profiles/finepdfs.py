"""FinePDFs: text of PDF files, filtered by the scores that come with it."""

import hashlib
from typing import Any

from zgcm.config.profiles import Profile
from zgcm.corpus.pipeline import Settings
from zgcm.corpus.sample import Sample
from zgcm.corpus.steps.common import metadata, number

LANGUAGE = ("lid_score", "language_score", "language_probability", "language_confidence")
OVERLAP = ("minhash_count", "minhash_matches", "minhash_overlap")
PRIMARY = ("primary_score", "quality_score", "edu_score", "pdf_quality_score")


def clean_finepdfs_record(sample: Sample, settings: Settings) -> None:
    data = sample.data
    if not sample.string("text") and isinstance(data.get("content"), str):
        data["text"] = data["content"]
    sample.text_fields = ("text",)
    language, overlap, primary = (_score(sample, names) for names in (LANGUAGE, OVERLAP, PRIMARY))
    least_language, most_overlap, least_primary = (
        settings["finepdfs_lid_threshold"],
        settings["finepdfs_minhash_max"],
        settings["finepdfs_primary_threshold"],
    )
    scores = {"lid_score": language, "minhash_count": overlap, "primary_score": primary}
    sample.metrics |= {f"finepdfs_{name}": score for name, score in scores.items() if score is not None}
    data["finepdfs_dedup_key"] = _key(sample)
    # The published label is a constant, whatever thresholds the recipe gives; ours says what was applied.
    sample.buckets["finepdfs_policy"] = (
        f"relaxed_lid{_digits(least_language)}_mh{_digits(most_overlap)}_p{_digits(least_primary)}"
    )
    if None in scores.values():
        sample.review("finepdfs_missing_quality_metric", flag=True)
    if language is not None and language < least_language:
        sample.drop("finepdfs_low_language_score")
    if overlap is not None and overlap > most_overlap:
        sample.drop("finepdfs_excessive_minhash_overlap")
    if primary is not None and primary < least_primary:
        sample.drop("finepdfs_low_primary_score")


def _score(sample: Sample, names: tuple[str, ...]) -> float | None:
    """The first number among the names, in the record, then in its metadata."""
    places = (sample.data, metadata(sample))
    known = (number(place.get(name)) for place in places for name in names)
    return next((score for score in known if score is not None), None)


def _key(sample: Sample) -> str:
    """What names the document in its own collection; for people who look for it, nothing compares it."""
    data, details = sample.data, metadata(sample)
    if data.get("id"):
        return f"id:{data['id']}"
    places = [data.get(name, details.get(name)) for name in ("url", "dump", "file_path", "offset")]
    if any(place is not None for place in places):
        return "provenance:" + "\x1f".join("" if place is None else str(place) for place in places)
    return "text:" + hashlib.sha256(sample.text().encode("utf-8", "surrogatepass")).hexdigest()


def _digits(value: Any) -> str:
    """0.85 -> 085, 2.0 -> 2."""
    return f"{value:g}".replace(".", "")


PROFILE = Profile(
    [clean_finepdfs_record],
    stages=["pretrain"],
    categories=["pdf_ocr"],
    settings={
        "finepdfs_lid_threshold": 0.85,
        "finepdfs_minhash_max": 2.0,
        "finepdfs_primary_threshold": 0.8,
    },
)
