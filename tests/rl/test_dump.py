"""The file between the two halves of the loop: exact, readable, and refused where it does not belong."""

from pathlib import Path

import pyarrow.parquet
import pytest
from bandit import prepare
from fakes import Engine, judges_of
from tokenizers import Tokenizer

from zgcm.config.load import load_recipe
from zgcm.errors import ZgcmError
from zgcm.layout import Layout
from zgcm.rl import debug, dump
from zgcm.rl.prepare import prepare_run
from zgcm.rl.steps import judge, prompts_of, requests_of


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stage, and a dump of two of its steps with engines of our own."""
    root = tmp_path_factory.mktemp("stage")
    prepare(root)
    recipe, layout = load_recipe([root / "recipe.yaml"]), Layout(root / "results")
    job, facts = prepare_run(recipe, layout, "rl_math")
    engine = Engine(
        [job.tokenizer.encode(f"w</think>\\boxed{{{digit}}}").ids for digit in "7777777777777775"]
    )
    engine.load("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", 0)
    rows = []
    for step in range(2):
        prompts = prompts_of(job.stage, job.train, step)
        groups = engine.generate(requests_of(job.stage, prompts, "train", step), job.stage.rollout.sampling)
        judged = judge(job, judges_of(job), prompts, groups)
        rows += dump.rows_of(step + 1, prompts, groups, judged, job.tokenizer)
        batches[step + 1] = judged.batch
    assert any(row["left_out"] for row in rows) and not all(row["left_out"] for row in rows)
    dump.write_dump(root / "dump", rows, stage="rl_math", policy=facts["inputs"]["policy"])
    return root


batches: dict[int, list[object]] = {}


def test_what_is_read_is_what_was_written_to_the_last_digit(root: Path) -> None:
    found = dump.read_dump(root / "dump")
    assert found.batches == batches and found.stage == "rl_math"


def test_any_parquet_reader_shows_what_happened(root: Path) -> None:
    rows = pyarrow.parquet.read_table(root / "dump").to_pylist()
    tokenizer = Tokenizer.from_file(str(root / "results/export/sft/tokenizer.json"))
    assert {row["step"] for row in rows} == {1, 2}
    for row in rows:
        assert row["text"] == tokenizer.decode(row["token_ids"], skip_special_tokens=False)
        assert row["raw_reward"] == ("boxed{7}" in row["text"])
        assert (row["advantage"] is None) == (row["left_out"] is not None)
        assert len(row["logprobs"]) == len(row["token_ids"]) and row["version"] == 0


def test_dumps_that_do_not_belong_are_refused(root: Path, tmp_path: Path) -> None:
    recipe, layout = load_recipe([root / "recipe.yaml"]), Layout(root / "results")
    rows = pyarrow.parquet.read_table(root / "dump").to_pylist()
    for change, said in (
        ({"stage": "rl_code"}, "another stage"),
        ({"policy": "0" * 64}, "another initial policy"),
    ):
        dump.write_dump(
            tmp_path / "other",
            rows,
            **{
                "stage": "rl_math",
                "policy": prepare_run(recipe, layout, "rl_math")[1]["inputs"]["policy"],
                **change,
            },
        )
        with pytest.raises(ZgcmError, match=said):
            debug.train_only(recipe, layout, "rl_math", tmp_path / "other")
    for damage in (
        {"step": 0},
        {"logprobs": [0.0]},
        {"token_ids": []},
        {"prompt_ids": [None]},
    ):
        dump.write_dump(tmp_path / "damaged", [*rows[:-1], rows[-1] | damage], stage="rl_math", policy="")
        with pytest.raises(ZgcmError, match="damaged row"):
            dump.read_dump(tmp_path / "damaged")
    words = pyarrow.parquet.read_table(root / "dump").set_column(0, "step", pyarrow.array(["1"] * len(rows)))
    pyarrow.parquet.write_table(words, tmp_path / "words")
    with pytest.raises(ZgcmError, match="no step of type int32"):
        dump.read_dump(tmp_path / "words")
    pyarrow.parquet.write_table(pyarrow.table({"step": [1]}), tmp_path / "table")
    (tmp_path / "text").write_text("{}")
    for name, said in (
        ("table", "no stage, policy, prompt_ids"),
        ("text", "Not a readable parquet file"),
        ("nothing", "There is no such dump"),
    ):
        with pytest.raises(ZgcmError, match=said):
            debug.train_only(recipe, layout, "rl_math", tmp_path / name)


def test_no_more_steps_than_the_stage_has(root: Path) -> None:
    recipe, layout = load_recipe([root / "recipe.yaml"]), Layout(root / "results")
    with pytest.raises(ZgcmError, match="fewer steps"):
        debug.rollout_only(recipe, layout, "rl_math", steps=5)
