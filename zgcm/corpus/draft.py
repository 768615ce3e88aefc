"""Draft a recipe's source from a survey: a start that loads, with its guesses marked as such."""

from pathlib import Path
from typing import Any

import yaml

from zgcm.corpus.noise import ADVICE
from zgcm.corpus.survey import TEXT_CHARS, TEXT_NAMES, Survey

IDS = ("id", "uuid", "_id", "key", "doc_id", "record_id", "blob_id", "url")
TEXTS = ("text", "content", "body", "document", "raw_text", "article", "page_content", "markdown")
PAIRS = (
    ("problem", "solution", "midtrain", "math"),
    ("question", "solution", "midtrain", "math"),
    ("problem", "reasoning", "midtrain", "reasoning"),
    ("question", "answer", "midtrain", "web"),
    ("instruction", "output", "midtrain", "instruction"),
    ("prompt", "response", "midtrain", "instruction"),
)
"""Two fields that a category takes as its text by itself."""
CANONICAL = {
    "license": ("licence", "license_type", "licenses"),
    "language": ("lang", "programming_language"),
    "path": ("filename", "file_name", "max_stars_repo_path"),
    "messages": ("conversations", "conversation", "dialog", "dialogue", "chat"),
}
"""Canonical field -> names that datasets also use."""
MOSTLY = 0.5
NAMED = 0.005


def draft_source(found: Survey) -> dict[str, Any]:
    """The keys of a `files` source, by the names and values of the fields. Guesses; they load."""
    stage, category, text_fields, field_map = _kind(found)
    source: dict[str, Any] = {
        "kind": "files",
        "files": [str(found.path)],
        "stage": stage,
        "category": category,
    }
    if name := _id_field(found):
        source["id_field"] = name
    if text_fields:
        source["text_fields"] = text_fields
    top = _top(found)
    for canonical, others in CANONICAL.items():
        if canonical not in top and (other := next((name for name in others if name in top), None)):
            field_map[other] = canonical
    if field_map:
        source["field_map"] = field_map
    if "license" not in (*top, *field_map.values()) and "metadata.license" not in found.fields:
        source["defaults"] = {"license": "unknown"}
    return source


def draft_yaml(found: Survey, name: str = "") -> str:
    """A block for `sources:` of a recipe, with what was found as comments."""
    name = name or source_name(found.path)
    block = yaml.safe_dump(
        {"sources": {name: draft_source(found)}}, sort_keys=False, allow_unicode=True, width=110
    )
    seen = f"{found.records:,} records" + ("" if found.complete else " from the beginning")
    lines = [
        f"# Drafted by `zgcm profile` from {seen} of {found.path.name}. Check stage, category and license."
    ]
    if found.bad_lines:
        lines.append(f"# {found.bad_lines:,} lines are no records; the first: {found.first_bad_line}")
    if (share := found.duplicates.share()) >= NAMED:
        lines.append(f"# {share:.1%} of the texts repeat an earlier one; mixes leave them out.")
    for noise, count in found.noise.most_common():
        if count >= NAMED * found.records:
            lines.append(f"# {count / found.records:.1%} {noise}: {ADVICE[noise]}.")
    return "\n".join(lines) + "\n" + block


def source_name(path: Path) -> str:
    """A recipe's name for a file: lower-case letters, digits, underscores, a letter first."""
    stem = path.name.split(".")[0].lower()
    name = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in stem).strip("_")
    return name if name[:1].isalpha() else f"source_{name}".rstrip("_")


def _kind(found: Survey) -> tuple[str, str, list[str], dict[str, str]]:
    """Stage, category, text fields (empty: the category's own) and field map."""
    top = _top(found)
    talks = next((name for name in ("messages", *CANONICAL["messages"]) if _is_list(found, name)), None)
    if talks is not None or _is_list(found, "trajectory"):
        tools = any(
            f"{talks or 'trajectory'}[].{key}" in found.fields for key in ("tool_calls", "function_calls")
        )
        agentic = tools or "tools" in top or talks is None
        return ("posttrain" if talks else "midtrain"), ("agentic" if agentic else "instruction"), [], {}
    for first, second, stage, category in PAIRS:
        if min(found.share(first), found.share(second)) >= MOSTLY:
            return stage, category, [], {}
    text = _text_field(found)
    stage, category = _documents(found)
    named = [] if text is None or text == "text" else [text]
    if named and category == "code" and text == "content":
        return stage, category, [], {}  # the code steps take it
    return stage, category, [], ({named[0]: "text"} if named else {})


def _documents(found: Survey) -> tuple[str, str]:
    top = _top(found)
    if found.languages["code"] >= MOSTLY * found.records or top & {
        "repo_name",
        "blob_id",
        "max_stars_repo_path",
    }:
        return "pretrain", "code"
    if top & {"ocr_quality", "ocr_text", "pdf_url", "lid_score", "page_count"}:
        return "pretrain", "pdf_ocr"
    return ("midtrain", "web") if "url" in top else ("pretrain", "general_text")


def _text_field(found: Survey) -> str | None:
    """The field with the text: a usual name, else the longest texts."""
    texts = {
        name: item
        for name, item in found.fields.items()
        if name in _top(found) and item.types["text"] and found.share(name) >= MOSTLY
    }
    for name in (*TEXTS, *TEXT_NAMES):
        if name in texts:
            return name
    means = {
        name: item.lengths.total / item.lengths.count for name, item in texts.items() if item.lengths.count
    }
    longest = max(means, key=lambda name: means[name], default=None)
    return longest if longest is not None and means[longest] >= TEXT_CHARS else None


def _id_field(found: Survey) -> str | None:
    """A field that every record has and no two share; None for `id`, the default, too."""
    unique = [
        name
        for name, item in found.fields.items()
        if name in _top(found) and item.records == found.records and not item.repeats.share()
        and item.repeats.counted and item.lengths.quantile(1.0) <= TEXT_CHARS
        and not item.types["number"] and not item.types["true/false"]
    ]  # fmt: skip
    usual = [name for name in IDS if name in unique] + [name for name in unique if name.endswith("_id")]
    return usual[0] if usual and usual[0] != "id" else None


def _is_list(found: Survey, name: str) -> bool:
    return name in found.fields and bool(found.fields[name].types["list"]) and found.share(name) >= MOSTLY


def _top(found: Survey) -> set[str]:
    """Names of the fields that are not inside others."""
    return {name for name in found.fields if "." not in name}
