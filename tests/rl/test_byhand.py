"""`zgcm reward`: rewards with reasons, and errors that name the line."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from zgcm.cli.app import app
from zgcm.cli.reward import code_command, instruction_command, math_command
from zgcm.cli.verbs import arrange  # noqa: F401  (registers the verbs)
from zgcm.errors import ZgcmError
from zgcm.rl.formats import convert

MATH = {
    "sample_id": "a",
    "domain": "math",
    "task_type": "math",
    "messages": [{"role": "user", "content": "1/2?"}],
    "answers": ["7", r"\frac12"],
}
SPEC = [
    {"instruction_id": "punctuation:no_comma", "kwargs": {}},
    {"instruction_id": "length_constraints:number_words", "kwargs": {"relation": "at least", "num_words": 2}},
]
INSTRUCTION = {**MATH, "domain": "if", "answers": [], "ifeval_spec": SPEC}


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def score(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["reward", *arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def scored(path: Path) -> list[tuple[float, str | None, str]]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [(row["reward"], row["answer"], row["reason"]) for row in rows]


def test_math(tmp_path: Path) -> None:
    texts = [
        r"x</think>\boxed{0.5}<|endoftext|>",
        r"</think>\boxed{8}",
        r"\boxed{7}",
        "</think> <|endoftext|>",
        r"</think>\boxed{\sum_{k=1}^{10^9} k^{1/3}}",
    ]
    path = write(tmp_path / "c.jsonl", *({**MATH, "completion": text} for text in texts))
    summary = score("math", str(path), "--timeout", "3", "--workers", "1")
    assert (summary["rows"], summary["mean_reward"]) == (5, 0.2)
    rows = scored(tmp_path / "c.rewards.jsonl")
    assert rows[:4] == [
        (1.0, "0.5", r"equal: \frac12"),
        (0.0, "8", "not equal"),
        (0.0, None, "no </think>"),
        (0.0, None, "empty answer"),
    ]
    assert rows[4][0] == 0 and rows[4][2] == "not judged: timeout"


def test_instructions(tmp_path: Path) -> None:
    texts = ("</think>two words", "</think>a, b", "</think>,", "two words")
    path = write(tmp_path / "c.jsonl", *({**INSTRUCTION, "completion": text} for text in texts))
    assert score("if", str(path), "--workers", "1", "--output", str(tmp_path / "o.jsonl"))["rows"] == 4
    rows = scored(tmp_path / "o.jsonl")
    assert [row[0] for row in rows] == [1.0, 0.5, 0.0, 0.0]
    assert rows[1][2] == "not satisfied: punctuation:no_comma" and rows[3][2] == "no </think>"


def test_code(tmp_path: Path) -> None:
    task = {"task_id": 1, "text": "Add one.", "test_list": [f"assert f({x}) == {2 * x}" for x in range(3)]}
    source = write(tmp_path / "mbpp.jsonl", task)
    convert(source, tmp_path / "p.jsonl", "mbpp", tmp_path / "assets", "mbpp")
    row = json.loads((tmp_path / "p.jsonl").read_text())
    program = "</think>```python\ndef f(x):\n    return {}\n```"
    texts = (program.format("2 * x"), program.format("2 ** x"), "</think>```cpp\nint x;\n```", "def f(x): 1")
    path = write(tmp_path / "c.jsonl", *({**row, "completion": text} for text in texts))
    assert score("code", str(path), "--assets", str(tmp_path / "assets"), "--timeout", "10")["rows"] == 4
    rows = scored(tmp_path / "c.rewards.jsonl")
    assert [(row[0], row[2]) for row in rows] == [
        (1.0, "all passed"),
        (2 / 3, "not passed: 1 of 3, AssertionError"),  # digit for digit the training reward
        (0.0, "no program"),
        (0.0, "no </think>"),
    ]


@pytest.mark.parametrize(
    ("domain", "row", "message"),
    [
        ("math", MATH, "completion"),
        ("math", {**MATH, "completion": None}, "completion"),
        ("math", {**INSTRUCTION, "completion": "x"}, "'math'"),
        ("math", {**MATH, "answers": [], "completion": "x"}, "non-empty list"),
        ("if", {**MATH, "domain": "if", "completion": "x"}, "no ifeval_spec"),
        (
            "if",
            {**INSTRUCTION, "ifeval_spec": [{"instruction_id": "x", "kwargs": {}}], "completion": "x"},
            "'x'",
        ),
    ],
)
def test_errors_name_the_line_and_leave_nothing(
    tmp_path: Path, domain: str, row: dict[str, Any], message: str
) -> None:
    good = {**(MATH if domain == "math" else INSTRUCTION), "completion": "</think>7"}
    path = write(tmp_path / "c.jsonl", good, row)
    with pytest.raises(ZgcmError, match=message) as caught:
        CliRunner().invoke(app, ["reward", domain, str(path)], catch_exceptions=False)
    assert caught.value.where == f"{path}:2"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("verb", ["reward", "prompts"])
def test_a_missing_file_is_told_as_such_beside_an_output_of_before(tmp_path: Path, verb: str) -> None:
    before, missing = write(tmp_path / "before.jsonl", MATH), str(tmp_path / "nope.jsonl")
    verbs = {"reward": ["reward", "math", missing], "prompts": ["prompts", "convert", missing, "-f", "gsm8k"]}
    with pytest.raises(ZgcmError, match="missing") as caught:
        CliRunner().invoke(app, [*verbs[verb], "--output", str(before)], catch_exceptions=False)
    assert caught.value.where == missing


@pytest.mark.parametrize(
    ("verb", "rows", "what"),
    [
        ("math", [], "No rows"),
        ("math", [INSTRUCTION], "Wrong domain"),
        ("if", [{"sample_id": "a"}], "Fields are missing"),
        ("code", [MATH], "No tests"),
    ],
)
def test_errors_say_what_to_do(tmp_path: Path, verb: str, rows: list[dict[str, Any]], what: str) -> None:
    path, assets = write(tmp_path / "c.jsonl", *rows), tmp_path / "nope"
    arguments = ["reward", verb, str(path), *(["--assets", str(assets)] if verb == "code" else [])]
    with pytest.raises(ZgcmError, match=what) as caught:
        CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert caught.value.hint and str(caught.value).count(str(assets)) == (verb == "code")


@pytest.mark.parametrize("verb", [math_command, code_command, instruction_command])
def test_the_page_lists_every_reason(verb: Callable[..., None]) -> None:
    listed = (Path(__file__).parents[2] / "docs/rl.md").read_text()
    _, _, told = str(verb.__doc__).partition("reason")
    reasons = [reason.partition(":")[0] for reason in re.findall(r"`([^`]+)`", " ".join(told.split()))]
    assert reasons and not [reason for reason in reasons if f"`{reason}" not in listed]
