"""Every cleaning step as published, through the whole order of its stage and category."""

import pytest
from support import clean_one, outcome

from zgcm.corpus.steps.common import length_bucket

LONG = "A sentence that says enough to be a document of its own."
CODE = "def f(x):\n    return x + 1\n\nprint(f(2))"


KEPT = ("keep", [])


@pytest.mark.parametrize(
    ("data", "cleaning", "expected"),
    [
        ({"text": LONG}, {}, KEPT),
        ({"content": LONG}, {}, KEPT),
        ({"raw_text": LONG}, {}, KEPT),
        ({}, {}, ("drop", ["missing_text"])),
        ({"text": "\x00\x01"}, {}, ("drop", ["empty_training_text"])),
        ({"text": "fifteen chars.."}, {}, ("drop", ["too_short"])),
        ({"text": LONG}, {"max_chars": 20}, ("review", ["too_long"])),
        ({"text": LONG}, {"require_license": True}, ("review", ["missing_license"])),
        ({"text": LONG, "metadata": {"license": "MIT"}}, {"require_license": True}, KEPT),
        ({"text": LONG, "source": ""}, {}, ("review", ["missing_source"])),
        ({"text": f"{LONG} API-key = 'abcdef_12345/.x'"}, {}, ("review", ["possible_secret"])),
        ({"text": f"{LONG} access_token: abcdefghijkl"}, {}, ("review", ["possible_secret"])),
        ({"text": f"{LONG} password: short"}, {}, KEPT),
        ({"text": LONG}, {"sensitive_terms": ["SENTENCE"]}, ("review", ["sensitive_term"])),
    ],
)
def test_common_steps(data, cleaning, expected):
    assert outcome("pretrain", "general_text", data, cleaning) == expected


def test_flags_buckets_and_metrics():
    sample = clean_one("pretrain", "general_text", {"text": "x" * 9000, "source": None})
    assert sample.flags == {"missing_source"}
    assert sample.buckets == {"source_family": "general_text", "length": "2049_8192", "quality": "review"}
    assert sample.metrics == {"estimated_tokens": 2250.0}
    assert len(sample.data["text_sha256"]) == 64


def test_length_buckets_at_their_boundaries():
    bounds = [2048, 8192, 32768, 65536]
    labels = [length_bucket(tokens, bounds) for tokens in (1, 2048, 2049, 8192, 8193, 32769, 65536, 65537)]
    assert labels == [
        "1_2048", "1_2048", "2049_8192", "2049_8192", "8193_32768", "32769_65536", "32769_65536", "gt_65536",
    ]  # fmt: skip


POLICY = {"quality_policies": {
    "math": {"keep_min": 0.8, "review_min": 0.5, "hard_error_field": "hard", "hard_error_max": 3},
    "special": {"score_field": "q", "keep_min": 1, "require_score": True},
    "empty": {},
}}  # fmt: skip


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ({"quality_score": 0.8}, KEPT),
        ({"quality_score": "0.79"}, ("review", ["quality_score_below_keep_threshold"])),
        ({"quality_score": 0.4}, ("drop", ["quality_score_below_drop_threshold"])),
        ({"quality_score": True}, KEPT),
        ({"hard": 3}, KEPT),
        ({"hard": 3.1}, ("drop", ["hard_error_score_exceeded"])),
        ({"source": "special"}, ("review", ["missing_quality_score"])),
        ({"source_key": "special", "q": 2}, KEPT),
    ],
)
def test_quality_policies(extra, expected):
    data = {"question": "How many?", "solution": "Count them all, one by one: the answer: 3", **extra}
    assert outcome("midtrain", "math", data, POLICY) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"text": CODE}, KEPT),
        ({"content": CODE}, KEPT),
        ({"text": CODE, "path": "a/node_modules/x.py"}, ("drop", ["non_core_or_vendored_file"])),
        ({"text": CODE, "file_path": "Vendor/x.py"}, ("drop", ["non_core_or_vendored_file"])),
        ({"text": f"# Do not edit.\n{CODE}"}, ("review", ["possibly_generated_code"])),
        ({"text": "no code in here at all"}, ("review", ["weak_code_signal"])),
        ({"text": CODE, "prefix": "a", "middle": "", "suffix": "b"}, ("drop", ["incomplete_fim_triplet"])),
    ],
)
@pytest.mark.parametrize("stage", ["pretrain", "midtrain"])
def test_code(stage, data, expected):
    assert outcome(stage, "code", data) == expected


def test_code_buckets_and_indentation():
    sample = clean_one("pretrain", "code", {"content": CODE, "metadata": {"language": "Python"}, "diff": "x"})
    assert sample.buckets["language"] == "Python"
    assert (sample.buckets["subtype"], sample.buckets["verified"]) == ("patch", "unverified")
    assert sample.text() == CODE
    fim = clean_one("midtrain", "code", {"text": CODE, "prefix": "a", "middle": "b", "suffix": "c"})
    assert fim.buckets["subtype"] == "fim"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"text": LONG}, KEPT),
        ({"text": "Sign in. Cookie policy. Privacy policy. Subscribe now."}, ("review", ["web_boilerplate"])),
        ({"text": "spam and eggs\n" * 9 + "ham"}, ("drop", ["repetitive_web_text"])),
        ({"question": "What is it called?", "answer": "It is called Python."}, KEPT),
        ({"question": "What is it called?", "answer": " I don't know. "}, ("drop", ["unknown_answer"])),
        ({"question": "这是什么问题呢请回答我好吗", "answer": "不知道。"}, ("drop", ["unknown_answer"])),
        ({"question": "Eh?", "answer": "It is called Python."}, ("drop", ["incomplete_qa_pair"])),
        (
            {"question": "What is it called?", "answer": "Python it is.", "grounded": False},
            ("review", ["ungrounded_answer"]),
        ),
    ],
)
def test_web(data, expected):
    assert outcome("midtrain", "web", data) == expected


CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"function": {"name": "ls", "arguments": {"at": "é"}}}],
}
TRACE = [{"role": "user", "content": "List the files, please."}, CALL, {"role": "tool", "content": "a b c"}]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"messages": TRACE}, KEPT),
        ({"trajectory": TRACE}, KEPT),
        ({"messages": TRACE[:2]}, ("review", ["unpaired_tool_call"])),
        ({"messages": TRACE[:1]}, ("review", ["no_tool_call"])),
        ({"messages": TRACE[1:]}, ("review", ["invalid_first_role"])),
        ({"messages": [*TRACE, {"content": "x"}]}, ("drop", ["missing_message_role"])),
        (
            {"messages": [*TRACE, {"role": "assistant", "content": "It timed out"}]},
            ("review", ["failed_or_environment_trajectory"]),
        ),
        ({"text": LONG}, ("review", ["unstructured_agent_trace", "no_tool_call"])),
        ({"text": LONG, "pre_rendered_agent_trace": True}, KEPT),
    ],
)  # fmt: skip
def test_agentic(data, expected):
    assert outcome("midtrain", "agentic", data) == expected


def test_agentic_buckets():
    sample = clean_one(
        "midtrain", "agentic", {"messages": TRACE, "tool_names": ["ls", "cat", "ls"], "verified": True}
    )
    assert (sample.buckets["tool_family"], sample.buckets["outcome"]) == ("cat,ls", "verified")
    assert (sample.metrics["tool_calls"], sample.metrics["tool_observations"]) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"instruction": "Name a colour.", "output": "Blue is a colour."}, KEPT),
        (
            {"prompt": "Name a colour, any colour.", "response": " "},
            ("drop", ["incomplete_instruction_pair"]),
        ),
        (
            {"prompt": "Say something nice", "response": "say something NICE"},
            ("drop", ["prompt_response_identical"]),
        ),
        (
            {"prompt": "Name a colour.", "response": "As an AI language model I"},
            ("review", ["generic_model_template"]),
        ),
        (
            {"messages": [{"role": "user", "content": "Name a colour."}]},
            ("drop", ["incomplete_instruction_messages"]),
        ),
    ],
)
@pytest.mark.parametrize("stage", ["midtrain", "posttrain"])
def test_instruction(stage, data, expected):
    assert outcome(stage, "instruction", data) == expected


def test_a_fenced_answer_keeps_its_indentation():
    answer = f"Here you   are:\n```python\n{CODE}\n```"
    sample = clean_one("midtrain", "instruction", {"prompt": "Write a function f.", "response": answer})
    assert CODE in sample.data["response"]
    assert "you are" in sample.data["response"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"problem": "What is 2+2?", "solution": "Two and two make four, therefore 4."}, KEPT),
        ({"text": LONG, "problem": "2+2?"}, ("drop", ["missing_problem_or_solution"])),
        (
            {"question": "See the figure.", "solution": "The answer: forty two, as can be seen."},
            ("review", ["missing_multimodal_context"]),
        ),
        (
            {"question": "What is 2+2?", "solution": "Four it is."},
            ("review", ["solution_too_short", "missing_final_answer_signal"]),
        ),
        (
            {"question": "What is 2+2?", "solution": "Four it is." * 4, "answer": "4", "verified": False},
            ("review", ["verifier_failed"]),
        ),
    ],
)
def test_math(data, expected):
    assert outcome("midtrain", "math", data) == expected


STEPS_TAKEN = "First, we need to add the units; because 7+8=15 the carry is one."


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"prompt": "What is 47+38?", "response": STEPS_TAKEN, "final_answer": "85"}, KEPT),
        ({"problem": "What is 47+38?", "reasoning": STEPS_TAKEN}, ("review", ["missing_final_answer"])),
        ({"problem": "47+38?", "reasoning": "85"}, ("drop", ["too_short"])),
        ({"text": LONG, "answer": "85"}, ("drop", ["missing_reasoning"])),
        (
            {"problem": "What is 47+38?", "reasoning": "It is eighty-five.", "answer": "85"},
            ("review", ["weak_reasoning_signal"]),
        ),
        (
            {"problem": "<|user|> What is 47+38?", "reasoning": STEPS_TAKEN, "answer": "85"},
            ("review", ["control_or_prompt_artifact"]),
        ),
    ],
)
def test_reasoning(data, expected):
    assert outcome("midtrain", "reasoning", data) == expected


def test_reasoning_lineage_and_text():
    data = {
        "problem": "What is 47+38?",
        "reasoning": STEPS_TAKEN,
        "final_answer": "85",
        "source_row_hash": "h",
    }
    sample = clean_one("midtrain", "reasoning", {**data, "teacher_model": "big"})
    assert sample.text() == f"What is 47+38?\n{STEPS_TAKEN}\n85"
    assert (sample.data["lineage_hash"], sample.buckets["origin"]) == ("h", "teacher_rewrite")


def test_pretrain_documents():
    assert outcome("pretrain", "pdf_ocr", {"ocr_text": LONG}) == KEPT
    assert outcome("pretrain", "pdf_ocr", {"text": "a short page, no more"}) == ("review", ["short_ocr_text"])
    assert outcome("pretrain", "pdf_ocr", {"title": "x"}) == ("drop", ["missing_extracted_text"])
    cleaning, page = {"settings": {"pdf_min_ocr_quality": 0.5}}, {"text": LONG, "ocr_quality": "0.4"}
    assert outcome("pretrain", "pdf_ocr", page, cleaning) == (
        "review",
        ["low_ocr_quality"],
    )


@pytest.mark.parametrize(
    ("path", "decision"),
    [
        ("src/myvendor/x.py", "keep"),
        ("src/mapper/a.map.py", "keep"),
        ("x/app.js.map", "drop"),
        ("vendor/x.py", "drop"),
        ("a\\node_modules\\x.js", "drop"),
        ("a/b.min.js", "drop"),
    ],
)
def test_denied_paths_are_directories_and_endings(path, decision):
    assert outcome("midtrain", "code", {"text": CODE, "path": path})[0] == decision


def test_words_are_words():
    """Published: "enthusiast" holds "thus", "design in" holds "sign in"."""
    problem = {"question": "What is 2+2?", "solution": "An enthusiast counts them all up to four."}
    assert outcome("midtrain", "math", problem) == ("review", ["missing_final_answer_signal"])
    assert (
        outcome(
            "midtrain", "web", {"text": "They design in Rome, design in Oslo, assign in Bonn, design in."}
        )
        == KEPT
    )


def test_a_policy_is_looked_up_by_key_then_category_then_default():
    policies = {
        "key": {"keep_min": 3}, "there": {"keep_min": 2}, "math": {"keep_min": 1}, "default": {"keep_min": 9},
    }  # fmt: skip
    problem = {"question": "How many?", "solution": "Count them all, one by one: the answer: 3"}

    def reviewed(score, known, **extra):
        cleaning = {"quality_policies": {name: policies[name] for name in known}}
        return (
            outcome("midtrain", "math", {**problem, "quality_score": score, **extra}, cleaning)[0] == "review"
        )

    everything = list(policies)
    assert reviewed(2.5, everything, source_key="key", source="there")
    assert not reviewed(2.5, everything, source="there")
    assert not reviewed(1.5, everything)
    assert reviewed(1.5, ["default"])
    empty = {"quality_policies": {"math": {}, "default": {"keep_min": 9}}}
    assert outcome("midtrain", "math", {**problem, "quality_score": 1}, empty)[0] == "review"


@pytest.mark.parametrize("score", ["nan", "inf", "1e999", 10**400, [1]])
def test_scores_that_are_no_finite_numbers_are_none(score):
    data = {"question": "How many?", "solution": "Count them all, one by one: the answer: 3"}
    sample = clean_one("midtrain", "math", {**data, "quality_score": score}, POLICY)
    assert "quality_score" not in sample.metrics
