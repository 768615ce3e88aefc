"""Web knowledge: web pages with the mean score of a quality classifier and a token count."""

from typing import Any

from zgcm.config.profiles import Profile
from zgcm.corpus.pipeline import Settings
from zgcm.corpus.sample import Sample
from zgcm.corpus.steps.common import number
from zgcm.errors import ZgcmError

BANDS = ("lt3", "ge3", "ge4")
"""Rising."""
LENGTHS = ((16_384, "le_16k"), (65_536, "gt_16k_le_64k"), (262_144, "gt_64k_le_256k"))


def clean_web_knowledge_record(sample: Sample, settings: Settings) -> None:
    least = settings["web_knowledge_min_quality_band"]
    if least not in BANDS:
        raise ZgcmError(
            "There is no such quality band", where="cleaning.settings.web_knowledge_min_quality_band",
            found=repr(least), expected=", ".join(BANDS),
        )  # fmt: skip
    score = number(_value(sample, "quality_mean"))
    sample.data["quality_missing"] = score is None
    if score is None:
        sample.review("web_knowledge_missing_quality_score", flag=True)
        score = -1.0
    band = "ge4" if score >= 4 else "ge3" if score >= 3 else "lt3"
    sample.data["quality_band"] = sample.buckets["classifier_quality"] = band
    sample.metrics["web_knowledge_quality_mean"] = score
    tokens = number(_value(sample, "token_count"))
    if tokens is None or tokens <= 0:
        sample.review("web_knowledge_missing_token_count", flag=True)
    else:
        sample.metrics["training_token_count"] = tokens
        sample.buckets["source_length"] = next(
            (label for bound, label in LENGTHS if tokens <= bound), "gt_256k"
        )
    if BANDS.index(band) < BANDS.index(least):
        sample.drop("web_knowledge_below_quality_band")


def _value(sample: Sample, name: str) -> Any:
    places = (sample.data, sample.data.get("meta"), sample.data.get("metadata"))
    known = (place.get(name) for place in places if isinstance(place, dict))
    return next((value for value in known if value is not None), None)


PROFILE = Profile(
    [clean_web_knowledge_record],
    stages=["midtrain"],
    categories=["web"],
    settings={"web_knowledge_min_quality_band": "lt3"},
)
