"""The nine published profiles: every reason, label and number of theirs, through the whole cleaning."""

import hashlib
import json
import re
from pathlib import Path

import pytest
from support import clean_one, recipe_with

from zgcm.config.profiles import find_profile, registered
from zgcm.corpus.clean import clean_shard
from zgcm.errors import ZgcmError
from zgcm.layout import Layout
from zgcm.records import write_records

PAGE = (Path(__file__).parents[2] / "docs" / "profiles.md").read_text()

LONG = "A sentence that says enough to be a document of its own."
PAGES = " ".join(f"Line {number} of a page that nobody wrote twice." for number in range(9))


def outcome(profile, data, settings=None):
    found = find_profile(profile)
    sample = clean_one(found.stages[0], found.categories[0], data, {"settings": settings or {}}, profile)
    return sample.decision, sample.reasons


def cleaned(profile, data, settings=None):
    found = find_profile(profile)
    return clean_one(found.stages[0], found.categories[0], data, {"settings": settings or {}}, profile)


def test_the_published_nine_are_registered_for_their_sources():
    assert {name: (*find_profile(name).stages, *find_profile(name).categories) for name in registered()} == {
        "finepdfs": ("pretrain", "pdf_ocr"), "olmocr": ("pretrain", "pdf_ocr"),
        "gharchive": ("pretrain", "code"), "web_knowledge": ("midtrain", "web"),
        "nemotron_math": ("midtrain", "math"), "agent_coding": ("midtrain", "agentic"),
        "dolci_think": ("posttrain", "instruction"), "ultradata": ("posttrain", "instruction"),
        "dolci_tooluse": ("posttrain", "agentic"),
    }  # fmt: skip


SCORES = {"lid_score": 0.9, "minhash_count": 1, "quality_score": "0.8"}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (SCORES, ("keep", [])),
        ({"metadata": SCORES}, ("keep", [])),
        ({**SCORES, "lid_score": 0.84}, ("drop", ["finepdfs_low_language_score"])),
        ({**SCORES, "minhash_count": 3}, ("drop", ["finepdfs_excessive_minhash_overlap"])),
        ({**SCORES, "minhash_count": 2}, ("keep", [])),
        ({**SCORES, "quality_score": 0.79}, ("drop", ["finepdfs_low_primary_score"])),
        ({"lid_score": 0.9, "primary_score": 1}, ("review", ["finepdfs_missing_quality_metric"])),
        ({"lid_score": "?", "language_score": 0.9, **{"minhash_count": 0, "edu_score": 1}}, ("keep", [])),
    ],
)
def test_finepdfs(data, expected):
    assert outcome("finepdfs", {"content": PAGES, **data}) == expected


def test_finepdfs_labels_and_keys():
    sample = cleaned("finepdfs", {"text": PAGES, "id": 7, **SCORES})
    assert sample.buckets["finepdfs_policy"] == "relaxed_lid085_mh2_p08"
    assert sample.data["finepdfs_dedup_key"] == "id:7"
    assert sample.metrics["finepdfs_primary_score"] == 0.8
    other = cleaned(
        "finepdfs", {"text": PAGES, "url": "u", "offset": 0, **SCORES}, {"finepdfs_minhash_max": 1.5}
    )
    assert other.data["finepdfs_dedup_key"] == "provenance:u\x1f\x1f\x1f0"
    assert other.buckets["finepdfs_policy"] == "relaxed_lid085_mh15_p08"
    bare = cleaned("finepdfs", {"text": PAGES, **SCORES})
    assert bare.data["finepdfs_dedup_key"] == "text:" + hashlib.sha256(PAGES.encode()).hexdigest()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"text": PAGES}, ("keep", [])),
        ({"text": PAGES, "edu_score": 0.6}, ("keep", [])),
        ({"text": " \n"}, ("drop", ["olmocr_missing_text"])),
        ({"text": "again " * 500}, ("drop", ["olmocr_low_compression_ratio"])),
        ({"text": PAGES, "edu_score": "high"}, ("review", ["olmocr_invalid_edu_score"])),
        ({"text": PAGES, "edu_score": "nan"}, ("review", ["olmocr_invalid_edu_score"])),
        ({"text": PAGES, "edu_score": 0.59}, ("drop", ["olmocr_low_edu_score"])),
    ],
)
def test_olmocr(data, expected):
    assert outcome("olmocr", data) == expected


def test_olmocr_label_says_what_was_applied():
    assert cleaned("olmocr", {"text": PAGES}).buckets["olmocr_policy"] == "compression_ratio_ge_0p08"
    changed = cleaned("olmocr", {"text": PAGES}, {"olmocr_min_compression_ratio": 0.125})
    assert changed.buckets["olmocr_policy"] == "compression_ratio_ge_0p125"


CODE = "def f(x):\n    return x + 1\n"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("src/f.py", None),
        ("src/Dockerfile", None),
        ("web/a.min.js", "minified_asset"),
        ("a/Vendor/f.py", "vendor_or_build_path"),
        ("a\\node_modules\\f.js", "vendor_or_build_path"),
        ("a/vendors.py", None),
        ("a/poetry.lock", "lockfile"),
        ("a/f.zip", "binary_extension"),
        ("a/testdata/f.py", "fixture_or_snapshot"),
        ("a/reports/f.html", "machine_report"),
        ("a/f.xyz", "unsupported_file_type"),
        ("", "unsupported_file_type"),
    ],
)
def test_gharchive_paths(path, reason):
    expected = ("drop", [f"gharchive_{reason}"]) if reason else ("keep", [])
    assert outcome("gharchive", {"text": CODE, "path": path}) == expected


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({}, "missing_text"),
        ({"text": "a\0b"}, "binary_nul"),
        ({"text": "\n \n"}, "empty_text"),
        ({"text": f"# Code generated by a tool\n{CODE}"}, "generated_file"),
        ({"text": "x=1;" * 900}, "minified_or_long_line"),
        ({"text": CODE, "length_bytes": 11}, "configured_size_limit"),
    ],
)
def test_gharchive_texts(data, reason):
    settings = {"gharchive_max_file_bytes": 10} if "length_bytes" in data else {}
    assert outcome("gharchive", {"path": "f.py", **data}, settings) == ("drop", [f"gharchive_{reason}"])


def test_gharchive_labels():
    sample = cleaned(
        "gharchive", {"content": f"\r\n\n    {CODE}\n\n", "meta": {"path": "a/f.py", "repo": "r"}}
    )
    assert (
        sample.data["text"] == "    def f(x):\n    return x + 1"
    )  # the first line keeps its indentation, too
    digest = hashlib.sha256(sample.data["text"].encode()).hexdigest()
    assert sample.data["metadata"] == {
        "blob_id": f"sha256:{digest}", "path": "a/f.py", "language": "Python", "repo": "r",
    }  # fmt: skip
    assert (sample.buckets["language"], sample.buckets["gharchive_bucket"]) == ("Python", "core")


def test_gharchive_notebooks_become_their_sources():
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "words"]},
        {"cell_type": "code", "source": "\n    if x:\n        y()\n", "outputs": ["noise"]},
        {"cell_type": "code", "source": " "},
    ]
    sample = cleaned("gharchive", {"path": "n.ipynb", "text": json.dumps({"cells": cells})})
    assert sample.text() == ("<!-- markdown cell -->\n# Title\nwords\n\n# code cell\n    if x:\n        y()")
    assert cleaned("gharchive", {"path": "n.ipynb", "text": "print('no notebook')"}).decision == "keep"


@pytest.mark.parametrize(
    ("data", "expected", "band", "length"),
    [
        ({"quality_mean": 4.2, "token_count": 20_000}, ("keep", []), "ge4", "gt_16k_le_64k"),
        ({"meta": {"quality_mean": "3.0", "token_count": 16_384}}, ("keep", []), "ge3", "le_16k"),
        ({"metadata": {"quality_mean": 2.4}, "token_count": 262_145}, ("keep", []), "lt3", "gt_256k"),
        (
            {"token_count": 65_537},
            ("review", ["web_knowledge_missing_quality_score"]),
            "lt3",
            "gt_64k_le_256k",
        ),
        (
            {"quality_mean": 4, "token_count": 0},
            ("review", ["web_knowledge_missing_token_count"]),
            "ge4",
            None,
        ),
    ],
)
def test_web_knowledge(data, expected, band, length):
    sample = cleaned("web_knowledge", {"text": LONG, **data})
    assert (sample.decision, sample.reasons) == expected
    assert (sample.buckets["classifier_quality"], sample.buckets.get("source_length")) == (band, length)
    assert sample.flags == set(expected[1])
    assert sample.data["quality_missing"] is (sample.metrics["web_knowledge_quality_mean"] == -1)


def test_web_knowledge_least_band():
    data, least = {"text": LONG, "quality_mean": 3.5, "token_count": 9}, "web_knowledge_min_quality_band"
    assert outcome("web_knowledge", data, {least: "ge3"}) == ("keep", [])
    assert outcome("web_knowledge", data, {least: "ge4"}) == ("drop", ["web_knowledge_below_quality_band"])
    with pytest.raises(ZgcmError, match="lt3, ge3, ge4"):
        outcome("web_knowledge", data, {least: "best"})


PROBLEM = {"problem": "What is 2+2?", "solution": "Two and two make four, therefore 4."}
ROW = {"source_path": "/data/part-1.jsonl", "file_row_index": 12}
STRICT = ("drop", ["nemotron_math_strict_hard_error"])


@pytest.mark.parametrize(
    ("data", "listed", "expected"),
    [
        ({"metadata": ROW}, [], ("keep", [])),
        ({"hard_error_score": 4.0, "metadata": ROW}, [], STRICT),
        ({"metadata": {**ROW, "error_risk_score": "3.9"}}, [], ("keep", [])),
        ({}, [], ("review", ["nemotron_math_missing_hard_error_signal"])),
        ({"metadata": ROW}, ["part-1.jsonl\t12"], STRICT),
        ({"metadata": ROW}, ["part-1.jsonl:12"], STRICT),
        ({"metadata": ROW}, [["part-1.jsonl", 12]], STRICT),
        ({"metadata": ROW}, [{"source_file": "part-1.jsonl", "row_index": 12}], STRICT),
        ({"metadata": {"source_rel": "a:b", "row_index": 0}}, [3, "a:b:0"], STRICT),
        ({"metadata": ROW}, ["part-1.jsonl:13", None, {}, "12"], ("keep", [])),
    ],
)
def test_nemotron_math(data, listed, expected):
    assert outcome("nemotron_math", {**PROBLEM, **data}, {"nemotron_math_drop_keys": listed}) == expected


def test_nemotron_math_labels():
    sample = cleaned("nemotron_math", {**PROBLEM, "math_hard_error_score": 1})
    assert sample.buckets["hard_error_risk"] == "accepted"
    assert sample.flags == {"nemotron_math_missing_lineage_key"}
    assert cleaned("nemotron_math", {**PROBLEM, "metadata": ROW}).data["nemotron_math_drop_key"] == (
        "part-1.jsonl:12"
    )


def test_agent_coding():
    trace = "user: mend it\r\nassistant: done, all good, nothing else to do"
    sample = cleaned("agent_coding", {
        "text": trace, "sample_type": "agent_coding_same_repo_multiissue_pack",
        "metadata": {"source_ids": ["b", "a"], "source_instance_id": "c", "source_id": "a"},
    })  # fmt: skip
    assert (sample.decision, sample.reasons) == ("keep", [])
    text = trace.replace("\r\n", "\n")
    digest = hashlib.sha256(text.encode()).hexdigest()
    expected = {
        "text_chars": len(text), "rough_tokens_chars_div_3_6": int(len(text) / 3.6), "length_bucket": "le16k",
        "dedup_text_sha256": digest, "near_dedup_sample_sha256": digest, "pre_rendered_agent_trace": True,
        "training_tags": ["agentic", "coding", "agent_trace"], "completion_status": "completed_success",
        "dedup_priority": 0, "source_trace_keys": ["a", "b", "c"],
    }  # fmt: skip
    assert expected.items() <= sample.data.items()
    assert sample.buckets["source_length"] == "le16k"
    assert outcome("agent_coding", {"text": " "}) == ("drop", ["agent_coding_missing_trace_text"])
    odd = outcome("agent_coding", {"text": trace, "completion_status": "gave up"})
    assert odd == ("review", ["agent_coding_unverified_completion"])


def test_agent_coding_probe_of_a_long_trace():
    text = "".join(f"step {number}\n" for number in range(9000)).strip()
    middle = (len(text) - 12_000) // 2
    probe = "\n".join((text[:12_000], text[middle : middle + 12_000], text[-12_000:]))
    sample = cleaned("agent_coding", {"text": text})
    assert sample.data["near_dedup_sample_sha256"] == hashlib.sha256(probe.encode()).hexdigest()
    assert sample.data["length_bucket"] == "gt16k_le64k"


THOUGHT = {"role": "assistant", "content": "before <think> 7+8=15 </think> It is 85.", "id": 3}
ASKED = {"role": "user", "content": "What is 47+38, please?"}
MATH = "owner/OpenThoughts3-full-filtered-math-decontam-v2"


def think(content, settings=None, **more):
    messages = [ASKED, {"role": "assistant", "content": content}]
    return outcome("dolci_think", {"dataset_source": MATH, "messages": messages, **more}, settings)


def test_dolci_think_splits_reasoning():
    sample = cleaned("dolci_think", {"dataset_source": MATH, "messages": [ASKED, THOUGHT]})
    assert (sample.decision, sample.reasons) == ("keep", [])
    assert sample.data["messages"] == [
        ASKED, {"role": "assistant", "content": "It is 85.", "reasoning_content": "7+8=15", "id": 3},
    ]  # fmt: skip
    assert sample.data["source_key"] == sample.buckets["dolci_source"] == "openthoughts_math"
    assert sample.data["ability"] == "math_reasoning"
    assert (sample.data["source"], sample.data["think_mode"]) == (MATH, "think")
    words = 15  # What is 47 38 please, 7 8 15, It is 85, and 4 for the turn
    assert sample.data["metadata"] == {"rough_render_tokens": words, "source_label": "openthoughts_math"}
    assert sample.metrics["dolci_think_rough_tokens"] == words


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("no thought", "missing_complete_think"),
        ("<think> cut off", "missing_complete_think"),
        ("</think> turned <think>", "missing_complete_think"),
        ("<THINK>x</THINK> y", "missing_complete_think"),
        ("<think> </think> answer", "empty_think"),
        ("<think>x</think> ", "empty_visible_answer"),
        ("<think>x</think> y <think>z</think> w", "multiple_think_blocks"),
        ("<think>x</think> y <|IM_end|>", "template_token"),
        ("<think>[gMASK]</think> y", "template_token"),
        (f"<think>{'round and round it goes ' * 40}</think> y", "repetition"),
    ],
)
def test_dolci_think_answers(content, reason):
    assert think(content) == ("drop", [f"dolci_think_{reason}"])


def test_dolci_think_records():
    content = "<think>a b c</think> an answer"
    assert outcome("dolci_think", {"dataset_source": "x/y"}) == ("drop", ["dolci_think_not_target_source"])
    for messages, reason in (([], "bad_messages"), (["x"], "bad_message_object")):
        data = {"dataset_source": MATH, "messages": messages}
        assert outcome("dolci_think", data) == ("drop", [f"dolci_think_{reason}"])
    assert think(content + "<|user|>", {"dolci_think_strict": False})[0] == "review"
    # 13 words and 4 for the turn, by hand: What is 47 38 please / a b c / an answer
    assert think(content, {"dolci_think_max_rough_tokens": 13}) == ("drop", ["dolci_think_over_length"])
    assert think(content, {"dolci_think_review_rough_tokens": 13}) == ("review", ["dolci_think_long_record"])
    assert think(content, {"dolci_think_review_rough_tokens": 14}) == ("keep", [])


def test_ultradata_repairs():
    sample = cleaned("ultradata", {"messages": [
        {"role": "system", "content": " "}, ASKED,
        {"role": "assistant", "content": "well <think>7+8=15</think>It is 85."},
        {"role": "user", "content": "And 1+1? Think."},
        {"role": "assistant", "content": "It is two.", "reasoning_content": "<think>1+1</think>"},
    ]})  # fmt: skip
    assert (sample.decision, sample.reasons) == ("keep", [])
    assert [message["role"] for message in sample.data["messages"]] == ["user", "assistant"] * 2
    first, second = sample.data["messages"][1::2]
    assert (first["content"], first["reasoning_content"]) == ("It is 85.", "well 7+8=15")
    assert second["reasoning_content"] == "1+1"
    assert sample.buckets["format_profile"] == "ultradata"
    assert sample.flags == {
        "ultradata_removed_empty_system", "ultradata_repaired_visible_think_leak",
        "ultradata_stripped_reasoning_content_tag",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ("x", "bad_messages"),
        (["x"], "non_dict_message"),
        ([{"role": "user", "content": "a <|eot_id|>"}], "foreign_chat_template_token"),
        ([{"role": "assistant", "content": "a", "reasoning": "<|model|>"}], "foreign_chat_template_token"),
        ([ASKED, {"role": "assistant", "content": "<think></think>"}], "empty_after_think_repair"),
        ([{"role": "system", "content": ""}], "no_messages_after_clean"),
    ],
)
def test_ultradata_drops(messages, reason):
    assert outcome("ultradata", {"messages": messages}) == ("drop", [f"ultradata_{reason}"])


def test_ultradata_keeps_reasoning_that_is_there():
    answer = {"role": "assistant", "content": "<think>leak</think>It is 85.", "reasoning_content": "true one"}
    sample = cleaned("ultradata", {"messages": [ASKED, answer]})
    assert sample.data["messages"][1] == {**answer, "content": "It is 85."}


SYSTEM = {
    "role": "system",
    "content": "You are a function calling AI model. Be brief.",
    "functions": json.dumps([{"name": "weather", "parameters": {}}]),
}
CALLS = {"role": "assistant", "content": None, "function_calls": 'weather(city="Oslo", days=[1, 2])'}
SEEN = {"role": "environment", "content": '{"sky": "blue"}'}
TOLD = {"role": "assistant", "content": "The sky is blue.", "function_calls": None}
TALK = [SYSTEM, {"role": "user", "content": "How is the weather?"}, CALLS, SEEN, TOLD]


def test_dolci_tooluse_converts_calls_tools_and_environment():
    sample = cleaned("dolci_tooluse", {"messages": TALK})
    assert (sample.decision, sample.reasons) == ("keep", [])
    assert [message["role"] for message in sample.data["messages"]] == [
        "system", "user", "assistant", "tool", "assistant",
    ]  # fmt: skip
    assert sample.data["messages"][0]["content"] == "Be brief."
    (call,) = sample.data["messages"][2]["tool_calls"]
    assert call["function"] == {"name": "weather", "arguments": {"city": "Oslo", "days": [1, 2]}}
    assert json.loads(call["arguments"]) == call["function"]["arguments"]
    assert sample.data["tools"] == [{"type": "function", "function": {"name": "weather", "parameters": {}}}]
    assert (sample.data["tool_schema_format"], sample.buckets["tool_schema"]) == ("native_tools_v1", "native")
    assert 'weather {"city": "Oslo", "days": [1, 2]}' in sample.text()


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "empty_messages"),
        ([{**SYSTEM, "functions": "{}"}], "conversion_failed"),
        ([{**SYSTEM, "functions": [{}]}], "conversion_failed"),
        ([*TALK[:2], {**CALLS, "function_calls": "weather city"}], "conversion_failed"),
        ([*TALK[:2], {**CALLS, "function_calls": "weather(city=)"}], "conversion_failed"),
        ([*TALK, "x"], "bad_message"),
        ([*TALK, {"role": "narrator", "content": "x"}], "bad_role"),
        ([*TALK[:2], {"role": "assistant", "content": ""}], "empty_assistant"),
        ([*TALK[:2], {**CALLS, "function_calls": [{"function": {"name": "f", "arguments": "{}"}}]}],
         "bad_tool_call"),
        ([*TALK[1:2], SYSTEM], "system_not_first"),
        ([SYSTEM, TOLD], "invalid_assistant_order"),
        ([*TALK[:2], SEEN], "invalid_tool_order"),
    ],
)  # fmt: skip
def test_dolci_tooluse_drops(messages, reason):
    decision, reasons = outcome("dolci_tooluse", {"messages": messages})
    assert (decision, reasons[-1]) == ("drop", f"dolci_tooluse_{reason}")


def test_dolci_tooluse_without_tools_is_for_review():
    decision, reasons = outcome("dolci_tooluse", {"messages": TALK[1:]})
    assert (decision, reasons) == ("review", ["dolci_tooluse_missing_tools"])
    taught = {
        "role": "system",
        "content": "Put calls into <function_calls>.",
        "functions": [{"name": "weather"}],
    }
    sample = cleaned("dolci_tooluse", {"messages": [taught, *TALK[1:]]})
    assert sample.data["messages"][0]["role"] == "user"


def test_the_page_names_every_profile_and_setting_with_its_default():
    rows = [line.removeprefix("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| `")]
    for name in registered():
        profile = find_profile(name)
        assert f"| `{name}` | {profile.stages[0]}, {profile.categories[0]} |" in PAGE
        for setting, default in profile.settings.items():
            (cells,) = [row for row in rows if f"`{setting}`" in row[0]]
            written = str(default).lower() if isinstance(default, bool) else str(default)
            assert written in cells[1].split(", ")


def test_the_profile_of_the_page_works(tmp_path, monkeypatch):
    monkeypatch.setenv("ZGCM_CHECKOUT", str(tmp_path))
    (source,) = re.findall("```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "my_profile.py").write_text(source)
    rows = [
        {"text": LONG, "stars": 3},
        {"text": LONG, "stars": 2},
        {"text": f"{LONG} unfinished", "stars": 9},
    ]
    write_records(tmp_path / "notes.jsonl", rows)
    recipe = recipe_with({
        "kind": "files", "files": [str(tmp_path / "notes.jsonl")], "stage": "pretrain",
        "category": "general_text", "profile": "./my_profile.py",
    })  # fmt: skip
    summary = clean_shard(recipe, Layout(tmp_path), "mine", "00000")
    assert (summary["kept"], summary["review"], summary["dropped"]) == (1, 1, 1)
    assert summary["reasons"] == {"notes_few_stars": 1, "notes_unfinished": 1}
    assert summary["pipeline"][0] == "clean_notes"
