"""The step that looks for credentials, personal data and listed terms, and applies the source's policy."""

from collections import Counter

from zgcm.corpus.messages import messages_of, messages_text, said
from zgcm.corpus.pipeline import Settings
from zgcm.corpus.sample import Sample
from zgcm.corpus.text import code_form, prose_form

FOUND = "found_"
"""Prefix of the metrics that count findings, for instance `found_email`."""


def scan_sensitive_content(sample: Sample, settings: Settings) -> None:
    """Flags and counts what is found. By policy the record stays (`keep`), is looked at (`review`), loses the
    finding (`redact`: in every string of it, also in copies under other names), or goes (`drop`)."""
    from zgcm.corpus.scan.matcher import scan

    terms = settings["sensitive_terms"]
    strings = _trained_strings(sample)
    whole = "\n".join(strings) if len(strings) > 1 or not strings else strings[0]
    if terms:
        folded = whole.casefold()
        if any(term.casefold() in folded for term in terms):
            sample.review("sensitive_term", flag=True)
    if not (found := scan(whole)):
        return
    counts = Counter(finding.kind for finding in found)
    sample.metrics.update({f"{FOUND}{kind}": float(count) for kind, count in sorted(counts.items())})
    redacted = [kind for kind in counts if _apply(sample, kind, settings)]
    if redacted:
        _redact(sample, redacted)


def count_findings(metrics: dict[str, float], counts: Counter[str]) -> None:
    """Add a record's findings to the counts of its shard, by kind."""
    for name, value in metrics.items():
        if name.startswith(FOUND):
            counts[name.removeprefix(FOUND)] += int(value)


def _apply(sample: Sample, kind: str, settings: Settings) -> bool:
    """Mark the sample by the policy for this kind; whether its findings are to be replaced."""
    policy = settings["secrets" if kind == "secret" else "pii"]
    reason = "possible_secret" if kind == "secret" else "possible_pii"
    if policy == "redact":
        sample.flags.add(f"redacted_{kind}")
        return True
    if policy in ("review", "drop"):
        sample.flags.add(reason)
        sample.flags.add(f"possible_{kind}")
        sample.mark(policy, reason)
    return False


def _trained_strings(sample: Sample) -> list[str]:
    """What the record trains on: its conversation where it has one, else its text."""
    from zgcm.corpus.scan.redact import scanned_strings

    messages = messages_of(sample.data)
    if any(map(said, messages)):
        return scanned_strings([messages, sample.data.get("tools")])
    text = sample.text()
    return [text] if text else []


def _redact(sample: Sample, kinds: list[str]) -> None:
    """Redact all of `data`; a text that was rendered from the conversation is rendered again, for in it an
    escaped line feed of JSON (`\\n138...`) hides where a number begins."""
    from zgcm.corpus.scan.redact import redact_value

    rendered = sample.data.get("text") == _rendered(sample)
    sample.data = redact_value(sample.data, kinds)
    if rendered:
        sample.data["text"] = _rendered(sample)


def _rendered(sample: Sample) -> str | None:
    messages = messages_of(sample.data, "messages", "trajectory")
    form = code_form if sample.category == "code" else prose_form
    return form(messages_text(messages)) if messages else None
