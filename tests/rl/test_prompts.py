import dataclasses
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from zgcm.config.rl import steps_per_epoch
from zgcm.corpus import arithmetic
from zgcm.errors import ZgcmError
from zgcm.rl import disjoint, prompts

ROW = {
    "sample_id": "a",
    "domain": "math",
    "task_type": "math",
    "messages": [{"role": "user", "content": "What is 1+1?"}],
    "answers": ["2"],
}


def encode(messages: list[dict[str, Any]]) -> list[int]:
    return [0] * sum(len(message["content"]) for message in messages)


def read(path: Path, **settings: Any) -> list[prompts.Prompt]:
    arguments = {"domain": "math", "max_prompt_tokens": 40, **settings}
    return prompts.validate(prompts.read_rows(path), encode, **arguments)


def write(path: Path, *rows: Any) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def test_good_rows_and_blank_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", ROW, "", {**ROW, "sample_id": 7, "answers": [3]}, "  ")
    first, second = read(path)
    assert (first.sample_id, second.sample_id, second.answers) == ("a", "7", ["3"])
    assert len(first.token_ids) == len("What is 1+1?")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("{", "Not valid JSON"),
        ("[1]", "JSON object"),
        (
            {key: value for key, value in ROW.items() if key not in ("answers", "domain")},
            "no answers, domain",
        ),
        ({**ROW, "sample_id": "a"}, "occurs twice"),
        ({**ROW, "sample_id": "b", "domain": "code"}, "'math'"),
        ({**ROW, "sample_id": "b", "answers": []}, "non-empty list"),
        ({**ROW, "sample_id": "b", "answers": "2"}, "non-empty list"),
        ({**ROW, "sample_id": "b", "answers": [None]}, "a string or a number"),
        ({**ROW, "sample_id": "b", "answers": [["2"]]}, "a string or a number"),
        ({**ROW, "sample_id": "b", "answers": [" "]}, "a string or a number"),
        ({**ROW, "sample_id": None}, "`sample_id`"),
        ({**ROW, "sample_id": "\ud800"}, "surrogate"),
        ({**ROW, "sample_id": 2**70}, "64 bits"),
        ('{"a": ' + "[" * 100_000, "nested too deeply"),
        ('{"a": NaN}', "Not valid JSON"),
        ({**ROW, "sample_id": "b", "messages": []}, "non-empty list"),
        ({**ROW, "sample_id": "b", "messages": [{"role": "bot", "content": ""}]}, "needs a role"),
        ({**ROW, "sample_id": "b", "messages": [{"role": "user", "content": None}]}, "a string"),
        ({**ROW, "sample_id": "b", "messages": [{"role": "user", "content": "x" * 41}]}, "41 tokens"),
    ],
)
def test_a_bad_row_is_named_with_file_and_line(tmp_path: Path, bad: Any, message: str) -> None:
    path = write(tmp_path / "p.jsonl", ROW, "", bad)
    with pytest.raises(ZgcmError, match=message) as caught:
        read(path)
    assert caught.value.where.startswith(f"{path}:3")


CODE = {**ROW, "domain": "code", "task_type": "code", "answers": [], "code_asset_hash": "0f" * 32}
SPEC = [{"instruction_id": "punctuation:no_comma", "kwargs": {}}]


def test_code_and_instruction_rows(tmp_path: Path) -> None:
    (code,) = read(write(tmp_path / "c.jsonl", CODE), domain="code")
    assert code.code_asset_hash == "0f" * 32 and not code.ifeval_spec
    row = {**ROW, "domain": "if", "answers": [], "ifeval_spec": SPEC}
    (instruction,) = read(write(tmp_path / "i.jsonl", row), domain="if")
    assert instruction.ifeval_spec == SPEC
    assert prompts.digest([instruction]) != prompts.digest([dataclasses.replace(instruction, ifeval_spec=[])])


def test_rows_of_a_mixed_stage_are_each_of_their_own_domain(tmp_path: Path) -> None:
    form = {**ROW, "sample_id": "f", "domain": "if", "answers": [], "ifeval_spec": SPEC}
    code = {**CODE, "sample_id": "c", "prompt_hash": "p"}
    found = read(write(tmp_path / "m.jsonl", ROW, code, form), domain="mixed")
    assert [prompt.domain for prompt in found] == ["math", "code", "if"]
    assert (found[1].task_type, found[1].prompt_hash, found[2].ifeval_spec) == ("code", "p", SPEC)
    assert prompts.tests_digest(found) == prompts.tests_digest(found[1:2]) != {}
    assert prompts.tests_digest(found[:1]) == {}
    other = dataclasses.replace(found[1], code_asset_hash="1f" * 32)
    assert prompts.tests_digest([other]) != prompts.tests_digest(found)
    assert prompts.digest([other]) != prompts.digest(found[1:2])


@pytest.mark.parametrize("domain", ["poetry", "mixed", "Math", None, ["math"]])
def test_an_unknown_domain_is_named_with_its_line(tmp_path: Path, domain: Any) -> None:
    path = write(tmp_path / "m.jsonl", ROW, {**ROW, "sample_id": "b", "domain": domain})
    with pytest.raises(ZgcmError, match=r"Unknown domain.*math, code, if") as caught:
        read(path, domain="mixed")
    assert caught.value.where == f"{path}:2"


@pytest.mark.parametrize(
    ("domain", "bad", "message"),
    [
        ("mixed", {"domain": "code", "task_type": "stdio"}, "task_type"),
        ("mixed", {"domain": "math"}, "non-empty list"),
        ("code", {"code_asset_hash": "0F" * 32}, "SHA-256"),
        ("code", {"code_asset_hash": None}, "SHA-256"),
        ("code", {"task_type": "stdio"}, "task_type"),
        ("code", {"answers": ""}, "a list"),
        ("if", {"ifeval_spec": []}, "non-empty list"),
        ("if", {"ifeval_spec": [{"instruction_id": "nothing", "kwargs": {}}]}, "Unknown instruction"),
    ],
)
def test_bad_fields_of_a_domain(tmp_path: Path, domain: str, bad: dict[str, Any], message: str) -> None:
    row: dict[str, Any] = {**CODE, "ifeval_spec": SPEC, "domain": domain, **bad}
    with pytest.raises(ZgcmError, match=message):
        read(write(tmp_path / "p.jsonl", row), domain=domain)


def test_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", ROW)
    assert len(read(path, expected_rows=1)) == 1
    with pytest.raises(ZgcmError, match="Wrong number"):
        read(path, expected_rows=2)
    with pytest.raises(ZgcmError, match="No prompts"):
        read(write(tmp_path / "empty.jsonl"))
    with pytest.raises(ZgcmError, match="file of records is missing"):
        read(tmp_path / "absent.jsonl")


def test_a_damaged_archive_is_told_from_its_rows(tmp_path: Path) -> None:
    packed = gzip.compress(
        write(tmp_path / "p.jsonl", *({**ROW, "sample_id": n} for n in range(99))).read_bytes()
    )
    for name, data in (("cut", packed[:-9]), ("other", b"{}\n")):
        path = tmp_path / f"{name}.jsonl.gz"
        path.write_bytes(data)
        with pytest.raises(ZgcmError, match="gzip") as caught:
            read(path)
        assert caught.value.where == str(path)


def test_demo_prompts_are_valid_and_disjoint() -> None:
    sides = []
    for split, count in (("train", 512), ("valid", 128)):
        rows = [(f"row {i}", row) for i, row in enumerate(arithmetic.prompts(split, count, 0, 7))]
        sides.append(prompts.validate(rows, encode, domain="math", max_prompt_tokens=100))
    disjoint.check_disjoint(*sides)
    assert prompts.digest(sides[0]) != prompts.digest(sides[1])


def test_order_covers_an_epoch_and_changes_between_epochs() -> None:
    settings = {"batch_size": 4, "seed": 1, "shuffle": True, "drop_last": True}
    assert steps_per_epoch(11, 4, True) == 2 and steps_per_epoch(11, 4, False) == 3
    first = prompts.batch_at(11, 0, **settings) + prompts.batch_at(11, 1, **settings)
    assert len(set(first)) == 8
    second = prompts.batch_at(11, 2, **settings) + prompts.batch_at(11, 3, **settings)
    assert first != second
    whole = [prompts.batch_at(11, step, **{**settings, "drop_last": False}) for step in range(3)]
    assert sorted([place for batch in whole for place in batch]) == list(range(11)) and len(whole[2]) == 3
    assert prompts.batch_at(11, 1, **{**settings, "shuffle": False}) == [4, 5, 6, 7]
