"""The task generators: careful answers earn the real reward, careless ones none; nothing held out is text."""

import contextlib
import io
import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from zgcm.corpus import tasks
from zgcm.errors import ZgcmError
from zgcm.io import sha256_bytes
from zgcm.rl.completion import python_program
from zgcm.rl.disjoint import check_disjoint
from zgcm.rl.formats import write_assets
from zgcm.rl.prompts import validate
from zgcm.rl.rewards.instruction import fraction, satisfied
from zgcm.rl.sandbox.assets import load
from zgcm.rl.sandbox.image import image
from zgcm.rl.sandbox.jail import Limits, jail
from zgcm.rl.sandbox.verdict import Sandbox, sandbox

COUNT = 600
"""Prompts of a split: enough for nearly every operation beside every name, and every pair of demands."""


def passes(program: str, test: str) -> bool:
    """Our own programs, in this process: what they print is thrown away."""
    scope: dict = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(program, scope)
        try:
            exec(test, scope)
        except AssertionError:
            return False
    return True


def test_every_function_passes_its_own_test_only_when_it_returns():
    for split in ("train", "valid"):
        for task in tasks._tasks(split)[:: len(tasks.ASKED) * 5]:
            assert passes(tasks.solution(task, careless=False)[1], tasks._test(task)), task
            assert not passes(tasks.solution(task, careless=True)[1], tasks._test(task)), task


def test_a_test_tells_operations_and_neighbouring_constants_apart():
    for (first, a), (second, b) in itertools.product(
        itertools.product(range(len(tasks.OPERATIONS)), (10, 11, 37, 98)), repeat=2
    ):
        program = tasks.solution((second, b, "step", 0), careless=False)[1]
        assert passes(program, tasks._test((first, a, "step", 0))) == ((first, a) == (second, b))


def test_the_sandbox_agrees(tmp_path: Path):
    rows, packed = tasks.code_prompts("valid", 3)
    write_assets(tmp_path, packed)
    with image() as parts, sandbox(jail(parts, Limits()), slots=1) as judge:
        for row in rows:
            (test,) = load(tmp_path, row["code_asset_hash"], row["task_type"])
            assert [passed(judge, row, test, careless) for careless in (False, True)] == [True, False]


def passed(judge: Sandbox, row: dict, test: str, careless: bool) -> bool:
    operation, constant, name, asked = row["sample_id"].split("-")[2:]
    task = (int(operation), int(constant), name, int(asked))
    program = python_program(f"```python\n{tasks.solution(task, careless=careless)[1]}```")
    assert program is not None
    return judge.score(program, [test], "code", 5.0)[0].passed


def test_careful_replies_satisfy_every_demand_and_careless_ones_none():
    for split, every in (("train", 397), ("valid", 61)):  # the checker of English is slow: a sample
        for wish in tasks._wishes(split)[::every]:
            spec = [tasks._constraint(demand) for demand in wish[3]]
            assert fraction(satisfied(tasks.reply(wish, careless=False)[1], spec)) == 1.0, wish
            assert fraction(satisfied(tasks.reply(wish, careless=True)[1], spec)) == 0.0, wish


@pytest.mark.slow
def test_every_pair_of_noun_and_adjective_reads_as_english_in_small_letters():
    small = [{"instruction_id": tasks.DEMANDS["small"][1], "kwargs": {}}]
    for split in ("train", "valid"):
        for wish in tasks._wishes(split):
            if "small" in dict(wish[3]) and wish[2] == 0:
                assert satisfied(tasks.reply(wish, careless=False)[1], small) == [True], wish


@pytest.mark.parametrize("domain", ["code", "if"])
def test_prompts_are_valid_different_and_their_splits_share_nothing(domain):
    sides, checked = {}, []
    for split in ("train", "valid"):
        if domain == "code":
            rows, packed = tasks.code_prompts(split, COUNT)
            assert {row["code_asset_hash"] for row in rows} == packed.keys()
            for name, content in packed.items():
                assert name == sha256_bytes(content)
                assert len(json.loads(content)) == 1
        else:
            rows = tasks.instruction_prompts(split, COUNT)
        numbered = [(f"{split}:{number}", row) for number, row in enumerate(rows)]
        checked.append(validate(numbered, lambda messages: [0], domain=domain, max_prompt_tokens=1))
        sides[split] = {row["messages"][0]["content"] for row in rows}
        assert len(sides[split]) == COUNT
    check_disjoint(*checked)


def test_what_is_held_out_occurs_in_no_conversation():
    held = {tasks._asked(task) for task in tasks._tasks("valid")}
    held |= {tasks._wished(wish) for wish in tasks._wishes("valid")}
    talks = [*tasks.programs(2000), *tasks.instructions(2000)]
    assert not held & {talk["messages"][0]["content"] for talk in talks}
    held_share = len(tasks._tasks("valid")) / (len(tasks._tasks("train")) + len(tasks._tasks("valid")))
    assert 0.07 <= held_share <= 0.13
    held_pairs, pairs = ({wish[:2] for wish in tasks._wishes(split)} for split in ("valid", "train"))
    assert not held_pairs & pairs
    assert 0.07 <= len(held_pairs) / len(held_pairs | pairs) <= 0.13


@pytest.mark.parametrize("make", [tasks.programs, tasks.instructions])
def test_conversations_are_one_sequence_in_two_manners(make):
    whole = list(make(1000, seed=1, careless_share=0.7))
    assert [
        *make(400, seed=1, careless_share=0.7),
        *make(600, seed=1, careless_share=0.7, start=400),
    ] == whole
    thoughts = [talk["messages"][1]["reasoning_content"].split()[0] for talk in whole]
    careless = sum(thought in ("print", "simply") for thought in thoughts)
    assert 640 <= careless <= 760
    assert len({json.dumps(talk["messages"]) for talk in whole}) == 1000
    assert list(make(5, seed=2)) != list(make(5, seed=1))


def test_too_many_are_refused():
    for ask in (tasks.code_prompts, tasks.instruction_prompts):
        with pytest.raises(ZgcmError, match="fewer valid prompts") as caught:
            ask("valid", 10**6)
        assert "at most" in caught.value.expected
    with pytest.raises(ZgcmError, match="of one manner"):
        list(tasks.programs(10**6))


def test_nothing_depends_on_the_hash_seed():
    code = (
        "from zgcm.corpus.tasks import *;"
        "print(list(programs(3)), list(instructions(3)));"
        "print(code_prompts('train', 3), instruction_prompts('valid', 3));"
        "from zgcm.corpus.arithmetic import *;"
        "print(list(documents(3)), list(conversations(3)), list(traces(3)), prompts('train', 3))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("0", "1")
    }
    assert len(outputs) == 1
