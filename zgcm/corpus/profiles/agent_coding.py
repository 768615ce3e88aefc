"""Agent coding: traces of coding agents that were rendered to text beforehand."""

import hashlib

from zgcm.config.profiles import Profile
from zgcm.corpus.pipeline import Settings
from zgcm.corpus.sample import Sample
from zgcm.corpus.steps.common import metadata

CHARS_A_TOKEN = 3.6
LENGTHS = ((16_384, "le16k"), (65_536, "gt16k_le64k"), (262_144, "gt64k_le256k"))
DEFAULT_TYPE = "agent_coding_trace64k_packed_full"
PRIORITY = {
    "agent_coding_same_repo_multiissue_pack": 0,
    "agent_coding_trace64k_packed_full": 1,
    "agent_coding_nonzerohero_singletrace": 2,
}
"""Of equal traces the one with the smallest number is the better source; 3 for all others."""
SUCCESSES = {"completed_success", "success", "passed"}
PROBE_CHARS = 12_000


def clean_agent_coding_record(sample: Sample, settings: Settings) -> None:
    data, details = sample.data, metadata(sample)
    text = sample.string("text").replace("\r\n", "\n").replace("\r", "\n").strip("\n").rstrip()
    if not text.strip():
        sample.drop("agent_coding_missing_trace_text")
        return
    kind = str(data.get("sample_type") or DEFAULT_TYPE)
    tokens = max(1, int(len(text) / CHARS_A_TOKEN))
    length = next((label for bound, label in LENGTHS if tokens <= bound), "gt256k")
    data |= {
        "text": text,
        "text_chars": len(text),
        "rough_tokens_chars_div_3_6": tokens,
        "length_bucket": length,
        "dedup_text_sha256": _sha256(text),
        "near_dedup_sample_sha256": _sha256(probe(text)),
        "pre_rendered_agent_trace": True,
        "dedup_priority": PRIORITY.get(kind, 3),
        "source_trace_keys": sorted(_trace_keys(details)),
        "training_tags": data.get("training_tags") or ["agentic", "coding", "agent_trace"],
        "completion_status": data.get("completion_status") or "completed_success",
    }
    sample.text_fields = ("text",)
    sample.buckets |= {"subtype": kind, "source_length": length}
    if str(data["completion_status"]).casefold() not in SUCCESSES:
        sample.review("agent_coding_unverified_completion")


def probe(text: str) -> str:
    """The text, or beginning, middle and end of a long one."""
    if len(text) <= 3 * PROBE_CHARS:
        return text
    middle = (len(text) - PROBE_CHARS) // 2
    return "\n".join((text[:PROBE_CHARS], text[middle : middle + PROBE_CHARS], text[-PROBE_CHARS:]))


def _trace_keys(details: dict[str, object]) -> set[str]:
    """Every trace that a packed record holds."""
    found: list[object] = [details.get("source_id"), details.get("source_instance_id")]
    for name in ("source_ids", "source_instance_ids"):
        value = details.get(name)
        found += value if isinstance(value, list) else [value]
    return {str(key) for key in found if key}


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


PROFILE = Profile([clean_agent_coding_record], stages=["midtrain"], categories=["agentic"])
