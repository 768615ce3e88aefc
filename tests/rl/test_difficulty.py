"""Pass rates by shards and the choice of prompts: the same bytes whatever the shards, and clear refusals.

A stand-in engine answers by the request's seed alone, as the real one does (the last test runs that).
"""

import errno
import json
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from bandit import make_tokenizer, prepare, prompt_rows

from zgcm import identity
from zgcm.cli import app, verbs  # noqa: F401 - registers the verbs
from zgcm.config.load import load_recipe
from zgcm.config.recipe import Recipe
from zgcm.config.rl import Sampling
from zgcm.errors import ZgcmError
from zgcm.layout import Layout, shard_name
from zgcm.rl import difficulty
from zgcm.rl.rewards.pool import Verdict
from zgcm.rl.run import read_prompts
from zgcm.rl.trajectory import Request, Response
from zgcm.rundir import difficulty as tables
from zgcm.rundir.manifest import write_manifest
from zgcm.tokens.tokenizer import read_tokenizer

SAMPLES = 4


class FakeEngine:
    """The answer is right in `seed % 5` of four responses; one in a while is cut off."""

    asked: Counter[int] = Counter()

    def __init__(self, policy: Path, *_: Any, **__: Any) -> None:
        self.tokenizer = read_tokenizer(policy)

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Response]]:
        type(self).asked.update(request.seed for request in requests)
        return [
            [self.answer(request.seed, place) for place in range(sampling.n_samples)] for request in requests
        ]

    def answer(self, seed: int, place: int) -> Response:
        if place == 3 and seed % 7 == 0:
            return Response([9] * 24, [0.0] * 24, "length", 0)
        digit = 7 if place < seed % 5 else 2
        ids = self.tokenizer.encode(f"w</think>{'w' * (seed % 3)}\\boxed{{{digit}}}<|endoftext|>").ids
        return Response(ids, [0.0] * len(ids), "stop", 0)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `prepare` makes, without a trained policy."""
    root = tmp_path_factory.mktemp("difficulty")
    export = root / "results" / "export" / "sft"
    export.mkdir(parents=True)
    make_tokenizer(export)
    (export / "config.json").write_text("{}")
    write_manifest(export)
    return root


@pytest.fixture
def root(exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(exported, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr("bandit.make_policy", lambda *_, **__: None)
    monkeypatch.setattr("zgcm.rl.rollout.Engine", FakeEngine)
    monkeypatch.setattr(difficulty.os, "environ", {})
    FakeEngine.asked = Counter()
    return tmp_path


def recipe_of(root: Path, train: int = 40, **settings: Any) -> Recipe:
    given = {"samples": SAMPLES, "max_pass_rate": 0.75} | settings
    prepare(root, difficulty=given, steps=4)
    rows = prompt_rows("train", train)
    (root / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return load_recipe([root / "recipe.yaml"])


def measured(root: Path, recipe: Recipe, shards: int) -> Layout:
    layout = Layout(root / "results")
    for index in reversed(range(shards)):
        difficulty.measure_shard(recipe, layout, "rl_math", shard_name(index))
    return layout


def chosen(layout: Layout) -> tuple[bytes, bytes]:
    return layout.difficulty("rl_math").read_bytes(), layout.kept_prompts("rl_math").read_bytes()


def test_one_shard_and_three_give_the_same_bytes(root: Path) -> None:
    layout = measured(root, recipe := recipe_of(root, shards=1), 1)
    facts = difficulty.gather(recipe, layout, "rl_math")
    one = chosen(layout)
    shutil.rmtree(layout.stage("rl_math"))
    layout = measured(root, recipe := recipe_of(root, shards=3), 3)
    assert difficulty.gather(recipe, layout, "rl_math") == facts
    assert chosen(layout) == one
    rows, _ = tables.read_table(layout.difficulty("rl_math"))
    assert [row["sample_id"] for row in rows] == [f"train{number}" for number in range(40)]
    assert {row["samples"] for row in rows} == {SAMPLES} and {row["domain"] for row in rows} == {"math"}
    assert all(row["pass_rate"] == row["passes"] / SAMPLES == row["mean_reward"] for row in rows)
    assert any(row["truncated"] == 0.25 for row in rows)
    kept = [json.loads(line) for line in one[1].splitlines()]
    known = {row["sample_id"]: row for row in prompt_rows("train", 40)}
    assert kept == [known[row["sample_id"]] for row in rows if row["kept"]], "rows as they were, in order"
    assert {row["reason"] for row in rows} == {"", "too_easy"}
    assert facts["kept"] + facts["too_easy"] == 40 and sum(facts["prompts_by_passes"]) == 40


def test_a_lost_shard_alone_is_measured_again(root: Path) -> None:
    layout = measured(root, recipe := recipe_of(root, shards=3), 3)
    path = layout.pass_rates("rl_math", "00001", 3)
    before = path.read_bytes()
    path.unlink()
    with pytest.raises(ZgcmError, match="missing") as caught:
        difficulty.gather(recipe, layout, "rl_math")
    assert "zgcm pass-rates rl_math 00001" in caught.value.hint
    FakeEngine.asked.clear()
    difficulty.measure_shard(recipe, layout, "rl_math", "00001")
    assert path.read_bytes() == before and FakeEngine.asked.total() == 13


def test_another_number_of_shards_takes_over_what_was_measured(root: Path) -> None:
    measured(root, recipe_of(root, shards=1), 1)
    FakeEngine.asked.clear()
    layout = measured(root, recipe := recipe_of(root, shards=2), 2)
    difficulty.gather(recipe, layout, "rl_math")
    assert not FakeEngine.asked
    measured(root, recipe_of(root, shards=2, samples=2), 2)
    assert FakeEngine.asked.total() == 40, "with other settings everything is sampled"


def test_bounds_are_kept_and_the_choice_alone_depends_on_them(root: Path) -> None:
    layout = measured(root, loose := recipe_of(root, max_pass_rate=1.0), 1)
    difficulty.gather(loose, layout, "rl_math")
    passes = [row["passes"] for row in tables.read_table(layout.difficulty("rl_math"))[0]]
    strict = recipe_of(root, min_pass_rate=0.25, max_pass_rate=0.5)
    assert same_id(loose, strict, "pass_rates")
    assert not same_id(loose, strict, "difficulty") and not same_id(loose, strict, "rl")
    difficulty.gather(strict, layout, "rl_math")
    rows, _ = tables.read_table(layout.difficulty("rl_math"))
    assert [row["kept"] for row in rows] == [1 <= count <= 2 for count in passes]
    assert [row["reason"] for row in rows if row["passes"] == 0] == ["too_hard"] * passes.count(0)
    assert passes.count(0), "the test needs one that was never solved"


def same_id(one: Recipe, other: Recipe, step: str) -> bool:
    return identity.recipe_id(one, step, "rl_math") == identity.recipe_id(other, step, "rl_math")


def test_learning_and_execution_are_no_part_of_pass_rates(root: Path) -> None:
    recipe = recipe_of(root)
    other = yaml.safe_load((root / "recipe.yaml").read_text())
    stage = other["stages"]["rl_math"]
    stage["learner"]["lr"] = 0.5
    stage["rollout"]["sampling"]["n_samples"] = 7
    stage["reward"]["length_penalty"]["max"] = 0.5
    stage["difficulty"] |= {"shards": 9, "resources": {"mem_mb": 7}}
    (root / "other.yaml").write_text(yaml.safe_dump(other, sort_keys=False))
    changed = load_recipe([root / "other.yaml"])
    assert same_id(recipe, changed, "pass_rates") and not same_id(recipe, changed, "rl")
    stage["seed"] = 7
    (root / "other.yaml").write_text(yaml.safe_dump(other, sort_keys=False))
    assert not same_id(recipe, load_recipe([root / "other.yaml"]), "pass_rates")


def test_too_few_kept_prompts_are_told_with_their_pass_rates(root: Path) -> None:
    layout = measured(root, recipe := recipe_of(root, train=10, max_pass_rate=0.0), 1)
    with pytest.raises(ZgcmError, match="Too few training prompts") as caught:
        difficulty.gather(recipe, layout, "rl_math")
    assert caught.value.where == "stages.rl_math.difficulty"
    assert "too_easy of 10 left out" in caught.value.found and "by passes of 4: 0: " in caught.value.found
    assert "max_pass_rate" in caught.value.hint and "4 steps of 5 prompts" in caught.value.expected
    assert not layout.difficulty("rl_math").exists()


def test_shards_and_choices_of_something_else_are_refused(root: Path) -> None:
    layout = measured(root, recipe := recipe_of(root), 1)
    difficulty.gather(recipe, layout, "rl_math")
    policy = tables.read_table(layout.difficulty("rl_math"))[1]["policy"]
    assert tables.require_kept(recipe, layout, "rl_math", policy) == layout.kept_prompts("rl_math")
    with pytest.raises(ZgcmError, match="another policy"):
        tables.require_kept(recipe, layout, "rl_math", "0" * 64)
    with pytest.raises(ZgcmError, match="another bounds"):
        tables.require_kept(recipe_of(root, max_pass_rate=0.5), layout, "rl_math", policy)
    with pytest.raises(ZgcmError, match="something else"):
        difficulty.gather(recipe_of(root, train=41), layout, "rl_math")
    layout.kept_prompts("rl_math").unlink()
    with pytest.raises(ZgcmError, match="not chosen yet"):
        tables.require_kept(recipe, layout, "rl_math", policy)
    with pytest.raises(ZgcmError, match="No such shard"):
        difficulty.measure_shard(recipe, layout, "rl_math", "00001")


def test_responses_without_a_verdict_are_no_passes_and_are_told(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Pool:
        def judge(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict]:
            return [Verdict(answer == "7", "" if answer == "7" else "timeout") for answer, _ in pairs]

    monkeypatch.setattr("zgcm.rl.rewards.router.verifier_pool", lambda *_: nullcontext(Pool()))
    recipe = recipe_of(root)
    rows = [row | {"answers": [r"\sqrt{49}", r"\frac{49}{7}"]} for row in prompt_rows("train", 40)]
    (root / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    layout = Layout(root / "results")
    facts = difficulty.measure_shard(recipe, layout, "rl_math", "00000")
    assert "timeout" in capsys.readouterr().err
    found, _ = tables.read_table(layout.pass_rates("rl_math", "00000", 1))
    cut_off = sum(row["truncated"] * SAMPLES for row in found)
    assert facts["not_judged"] == facts["responses"] - facts["passes"] - cut_off > 0
    assert facts["not_judged"] == sum(row["not_judged"] for row in found)
    call_here("difficulty", "rl_math", *common(root))
    assert f"; {facts['not_judged']} responses not judged" in capsys.readouterr().out


def test_prompts_that_change_while_they_are_chosen_or_afterwards_are_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = measured(root, recipe := recipe_of(root), 1)
    read_shards = difficulty.read_shards

    def change(*arguments: Any) -> list[dict[str, Any]]:
        text = (root / "train.jsonl").read_text()
        (root / "train.jsonl").write_text(text.replace('"7"', '"2"'))
        return read_shards(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(difficulty, "read_shards", change)
        with pytest.raises(ZgcmError, match="changed while they were read"):
            difficulty.gather(recipe, layout, "rl_math")
    assert not layout.difficulty("rl_math").exists() and not layout.kept_prompts("rl_math").exists()
    recipe_of(root)
    difficulty.gather(recipe, layout, "rl_math")
    policy = tables.read_made_with(layout.difficulty("rl_math"))["policy"]
    with (root / "train.jsonl").open("a") as file:
        file.write(json.dumps(prompt_rows("train", 41)[40]) + "\n")
    with pytest.raises(ZgcmError, match="another content of the prompts' file"):
        tables.require_kept(recipe, layout, "rl_math", policy)


def test_a_table_of_an_earlier_version_is_measured_again(root: Path) -> None:
    layout = measured(root, recipe := recipe_of(root), 1)
    path = layout.pass_rates("rl_math", "00000", 1)
    whole = path.read_bytes()
    old = pq.read_table(path, partitioning=None).drop_columns(["not_judged"])
    made_with = tables.read_made_with(path) | {"recipe_id": "of another version"}
    pq.write_table(old.replace_schema_metadata({tables.MADE_WITH: json.dumps(made_with).encode()}), path)
    with pytest.raises(ZgcmError, match="of something else"):
        difficulty.gather(recipe, layout, "rl_math")
    difficulty.measure_shard(recipe, layout, "rl_math", "00000")
    assert path.read_bytes() == whole


def test_a_full_disk_leaves_no_table_and_no_prompts_that_a_table_of_another_choice_vouches_for(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = measured(root, loose := recipe_of(root), 1)
    difficulty.gather(loose, layout, "rl_math")
    strict = recipe_of(root, min_pass_rate=0.25, max_pass_rate=0.5)

    def full(table: pa.Table, stream: BinaryIO, **_: Any) -> None:
        stream.write(b"PAR1")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tables.pq, "write_table", full)
    with pytest.raises(ZgcmError, match="disk is full"):
        difficulty.gather(strict, layout, "rl_math")
    policy = tables.read_made_with(layout.pass_rates("rl_math", "00000", 1))["policy"]
    with pytest.raises(ZgcmError, match="not chosen yet"):
        tables.require_kept(loose, layout, "rl_math", policy)
    shutil.rmtree(layout.stage("rl_math"))
    with pytest.raises(ZgcmError, match="disk is full"):
        difficulty.measure_shard(strict, layout, "rl_math", "00000")
    assert not files_below(layout.stage("rl_math"))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_shard_that_is_stopped_or_killed_leaves_nothing_and_is_measured_again(
    root: Path, number: signal.Signals
) -> None:
    recipe_of(root)
    program = (
        "import os, time, zgcm.rl.rollout; from zgcm.cli import main\n"
        "class Dying:\n"
        "    def __init__(self, *_, **__): ...\n"
        f"    def generate(self, *_): os.kill(os.getpid(), {int(number)}); time.sleep(60)\n"
        "zgcm.rl.rollout.Engine = Dying; main()"
    )
    command = [sys.executable, "-c", program, "pass-rates", "rl_math", "00000", *common(root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == (-number if number == signal.SIGKILL else 128 + number), done.stderr
    assert "Traceback" not in done.stderr
    assert not files_below(root / "results" / "rl_math")
    call_here("pass-rates", "rl_math", "00000", *common(root))
    path = Layout(root / "results").pass_rates("rl_math", "00000", 1)
    assert len(tables.read_table(path)[0]) == 40


def files_below(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def common(root: Path) -> list[str]:
    return ["--recipe", str(root / "recipe.yaml"), "--directory", str(root)]


def call_here(*arguments: str) -> None:
    app(list(arguments), standalone_mode=False)


def test_bounds_between_which_nothing_lies_are_refused(root: Path) -> None:
    with pytest.raises(ZgcmError, match="no prompt can be kept"):
        recipe_of(root, min_pass_rate=0.3, max_pass_rate=0.4)


@pytest.mark.parametrize(("split", "count"), [("train", 40), ("valid", 6)])
def test_another_number_of_rows_than_the_recipe_expects_is_refused(
    root: Path, split: str, count: int
) -> None:
    stage = recipe_of(root).rl_stages()["rl_math"]
    export = root / "results/export/sft"

    def read(expected: int) -> None:
        section = stage.prompts.model_copy(update={f"expected_{split}_rows": expected})
        read_prompts("rl_math", stage.model_copy(update={"prompts": section}), export, read_tokenizer(export))

    read(count)
    with pytest.raises(ZgcmError, match="Wrong number of prompts") as caught:
        read(count + 1)
    assert (caught.value.where, caught.value.found) == (f"{root}/{split}.jsonl", str(count))


def test_training_prompts_that_repeat_evaluation_prompts_can_be_dropped(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = recipe_of(root)
    rows = prompt_rows("train", 20)
    rows[3]["messages"] = prompt_rows("valid", 1)[0]["messages"]
    (root / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    stage = recipe.rl_stages()["rl_math"]
    export = root / "results/export/sft"
    tokenizer = read_tokenizer(export)
    with pytest.raises(ZgcmError, match="evaluation prompt") as caught:
        read_prompts("rl_math", stage, export, tokenizer)
    assert f"{root}/valid.jsonl:1" in caught.value.where and f"{root}/train.jsonl:4" in caught.value.found
    dropping = stage.model_copy(update={"prompts": stage.prompts.model_copy(update={"overlap": "drop"})})
    train, valid = read_prompts("rl_math", dropping, export, tokenizer)
    assert len(train) == 19 and len(valid) == 6
    assert "1 training prompt of 20 left out" in capsys.readouterr().err


def test_a_damaged_table_is_told(tmp_path: Path) -> None:
    path = tmp_path / "difficulty.parquet"
    with pytest.raises(ZgcmError, match="missing"):
        tables.read_table(path)
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(ZgcmError, match="Not a table of pass rates"):
        tables.read_table(path)
    good = {name: [0] for name in tables.MEASURED.names} | {"sample_id": ["a"], "domain": ["math"]}
    for metadata, columns in (
        (b"[1]", good),
        (b"{}", {name: good[name] for name in ("row", "sample_id")}),
        (b"{}", good | {"passes": ["many"]}),
        (b"{}", good | {"passes": [None]}),
    ):
        pq.write_table(pa.table(columns).replace_schema_metadata({tables.MADE_WITH: metadata}), path)
        with pytest.raises(ZgcmError, match="Not a table of pass rates"):
            tables.read_table(path)


@pytest.mark.long
def test_the_real_engine_gives_the_same_bytes_in_one_shard_and_in_two(tmp_path: Path) -> None:
    found = []
    for shards in (1, 2):
        root = tmp_path / str(shards)
        root.mkdir()
        common = prepare(root, difficulty={"samples": 4, "max_pass_rate": 1.0, "shards": shards}, steps=1)[2:]
        if found:
            shutil.rmtree(root / "results/export")
            shutil.copytree(tmp_path / "1/results/export", root / "results/export")
        for index in range(shards):
            call("pass-rates", "rl_math", shard_name(index), *common)
        call("difficulty", "rl_math", *common)
        layout = Layout(root / "results")
        found.append(tables.read_table(layout.difficulty("rl_math"))[0])
    assert found[0] == found[1] and len(found[0]) == 10
    assert 0 < sum(row["passes"] for row in found[0]) < 40


def call(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", "zgcm.cli", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
