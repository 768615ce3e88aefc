"""Benchmark files as prompts: fields, tests as assets, errors with the line."""

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from zgcm.errors import ZgcmError
from zgcm.rl.formats import convert

ROWS: dict[str, dict[str, Any]] = {
    "gsm8k": {"question": "2+2?", "answer": "It is <<2+2=4>>4.\n#### 1,004"},
    "math": {"problem": "2+2?", "solution": r"So \boxed{3}, no: \boxed{\frac{1}{2}}."},
    "humaneval": {
        "task_id": "X/0",
        "prompt": 'import math\n\n\ndef helper(x):\n    return x\n\n\ndef f(x):\n    """Double."""\n',
        "test": "def check(candidate):\n    assert candidate(helper(1)) == 2\n",
        "entry_point": "f",
    },
    "mbpp": {"task_id": 7, "text": "Double a number.", "test_list": ["assert f(1) == 2", "assert f(0) == 0"]},
    "ifeval": {
        "key": 3,
        "prompt": "Write without commas.",
        "instruction_id_list": ["punctuation:no_comma"],
        "kwargs": [{"num_words": None}],
    },
}


def write(path: Path, *rows: Any) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def converted(tmp_path: Path, form: str) -> tuple[dict[str, Any], Path]:
    source = write(tmp_path / "in.jsonl", ROWS[form], "")
    convert(
        source,
        tmp_path / "out.jsonl",
        form,
        tmp_path / "assets" if form in ("humaneval", "mbpp") else None,
        "n",
    )
    (row,) = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    return row, tmp_path / "assets"


@pytest.mark.parametrize(("form", "gold"), [("gsm8k", "1,004"), ("math", r"\frac{1}{2}")])
def test_math(tmp_path: Path, form: str, gold: str) -> None:
    row, _ = converted(tmp_path, form)
    assert row["answers"] == [gold] and row["domain"] == "math" and row["sample_id"] == "n/1"


@pytest.mark.parametrize(("form", "count"), [("humaneval", 1), ("mbpp", 2)])
def test_code_has_content_addressed_tests_that_work(tmp_path: Path, form: str, count: int) -> None:
    row, assets = converted(tmp_path, form)
    name = row["code_asset_hash"]
    packed = gzip.decompress((assets / name[:2] / f"{name}.json.gz").read_bytes())
    assert hashlib.sha256(packed).hexdigest() == name
    assert json.loads((assets / "manifest.json").read_text())["assets"] == [name]
    tests = json.loads(packed)
    assert len(tests) == count
    for test in tests:
        exec(test, {"f": lambda x: 2 * x})
    with pytest.raises(AssertionError):
        exec(tests[0], {"f": lambda x: None})


def test_ifeval(tmp_path: Path) -> None:
    row, _ = converted(tmp_path, "ifeval")
    assert row["ifeval_spec"] == [{"instruction_id": "punctuation:no_comma", "kwargs": {}}]
    assert row["sample_id"] == "n/3"


@pytest.mark.parametrize(
    ("form", "bad", "message"),
    [
        ("gsm8k", {**ROWS["gsm8k"], "answer": "4"}, "####"),
        ("gsm8k", {"answer": "#### 4"}, "no 'question'"),
        ("math", {"problem": "2+2?", "solution": "4"}, "boxed"),
        ("math", ROWS["gsm8k"], "--format gsm8k"),
        ("humaneval", {**ROWS["humaneval"], "entry_point": "g"}, "does not define g"),
        ("mbpp", {**ROWS["mbpp"], "test_list": ["assert ("]}, "Not a row"),
        ("ifeval", {**ROWS["ifeval"], "kwargs": []}, "1 instructions, 0 kwargs"),
        ("ifeval", {**ROWS["ifeval"], "instruction_id_list": ["x"]}, "Unknown instruction"),
        ("math", "{", "Not valid JSON"),
        ("gsm8k", {**ROWS["gsm8k"], "answer": 4}, "no string"),
        ("gsm8k", {**ROWS["gsm8k"], "id": {}}, "no string or number"),
        ("math", {"problem": "2+2?", "answer": ["4"]}, r"\['4'\]"),
        ("math", {"problem": "2+2?", "answer": True}, "True"),
        ("humaneval", {**ROWS["humaneval"], "prompt": 4}, "no string"),
        ("humaneval", {**ROWS["humaneval"], "test": "x=" + "-" * 100_000 + "1"}, "Not a row"),
        ("humaneval", ROWS["humaneval"], "occurs twice"),
        ("mbpp", {**ROWS["mbpp"], "test_list": "assert f"}, "no list of strings"),
        ("mbpp", {**ROWS["mbpp"], "test_imports": "import os"}, "no list of strings"),
        ("ifeval", {**ROWS["ifeval"], "kwargs": ["x"]}, "no list of objects"),
    ],
)
def test_errors_name_the_line_and_leave_nothing(tmp_path: Path, form: str, bad: Any, message: str) -> None:
    source = write(tmp_path / "in.jsonl", ROWS[form], bad)
    with pytest.raises(ZgcmError, match=message) as caught:
        convert(source, tmp_path / "out.jsonl", form, tmp_path / "assets", "n")
    assert caught.value.where.startswith(f"{source}:2")
    assert list(tmp_path.iterdir()) == [source]


def test_the_output_may_be_packed_but_not_the_input(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", ROWS["gsm8k"])
    before = source.read_bytes()
    with pytest.raises(ZgcmError, match="replace the input"):
        convert(source, source, "gsm8k", None, "n")
    assert source.read_bytes() == before
    convert(source, tmp_path / "out.jsonl.gz", "gsm8k", None, "n")
    assert json.loads(gzip.decompress((tmp_path / "out.jsonl.gz").read_bytes()))["answers"] == ["1,004"]


def test_code_needs_a_place_for_tests(tmp_path: Path) -> None:
    with pytest.raises(ZgcmError, match="need a place"):
        convert(write(tmp_path / "in.jsonl", ROWS["mbpp"]), tmp_path / "o", "mbpp", None, "n")
