"""olmOCR: text read from scanned pages, without the reader's loops (which compress well) and weak pages."""

import zlib

from zgcm.config.profiles import Profile
from zgcm.corpus.pipeline import Settings
from zgcm.corpus.sample import Sample
from zgcm.corpus.steps.common import number


def clean_olmocr_record(sample: Sample, settings: Settings) -> None:
    least_ratio, least_score = settings["olmocr_min_compression_ratio"], settings["olmocr_min_edu_score"]
    # The published label is a constant, whatever threshold the recipe gives; ours says what was applied.
    sample.buckets["olmocr_policy"] = f"compression_ratio_ge_{least_ratio:g}".replace(".", "p")
    text = sample.string("text")
    if not text.strip():
        sample.drop("olmocr_missing_text")
        return
    ratio = compression_ratio(text)
    sample.metrics["olmocr_zlib_ratio"] = ratio
    if ratio < least_ratio:
        sample.drop("olmocr_low_compression_ratio")
    if sample.data.get("edu_score") is None:
        return
    score = number(sample.data["edu_score"])
    if score is None:
        sample.review("olmocr_invalid_edu_score")
        return
    sample.metrics["olmocr_edu_score"] = score
    if score < least_score:
        sample.drop("olmocr_low_edu_score")


def compression_ratio(text: str) -> float:
    """Compressed bytes (zlib, level 6) a byte of UTF-8."""
    data = text.encode("utf-8", "surrogatepass")
    return len(zlib.compress(data, 6)) / len(data)


PROFILE = Profile(
    [clean_olmocr_record],
    stages=["pretrain"],
    categories=["pdf_ocr"],
    settings={"olmocr_min_compression_ratio": 0.08, "olmocr_min_edu_score": 0.6},
)
