"""Steps of the pretraining families extracted documents and general text."""

from zgcm.corpus.pipeline import Settings, Step
from zgcm.corpus.sample import Sample
from zgcm.corpus.steps.common import number


def normalize_pdf_ocr(sample: Sample, settings: Settings) -> None:
    _take_text(sample, "content", "ocr_text", "document")
    sample.buckets["source_family"] = "pdf_ocr"
    if not sample.text().strip():
        sample.drop("missing_extracted_text")


def filter_pdf_ocr_quality(sample: Sample, settings: Settings) -> None:
    if len(sample.text()) < settings["pdf_min_chars"]:
        sample.review("short_ocr_text")
    quality = number(sample.data.get("ocr_quality"))
    if quality is not None and quality < settings["pdf_min_ocr_quality"]:
        sample.review("low_ocr_quality")


def normalize_general_text(sample: Sample, settings: Settings) -> None:
    _take_text(sample, "content", "document", "body", "raw_text")
    sample.buckets["source_family"] = "general_text"
    if not sample.text().strip():
        sample.drop("missing_text")


def _take_text(sample: Sample, *names: str) -> None:
    """The published fallbacks for a record without `text`; a recipe's own `text_fields` need none."""
    if sample.text_fields != ("text",):
        return
    if sample.data.get("text") is None:
        found = next((sample.string(name) for name in names if sample.string(name)), None)
        if found is not None:
            sample.data["text"] = found


PDF_OCR_STEPS: list[Step] = [normalize_pdf_ocr, filter_pdf_ocr_quality]
GENERAL_TEXT_STEPS: list[Step] = [normalize_general_text]
