"""Pass rates and choices that must not be used: of something else, damaged, lost to a kill or a full disk."""

import errno
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bandit import prompt_rows
from measuring import call_here, common, measured, recipe_of

from zgcm.errors import ZgcmError
from zgcm.layout import Layout
from zgcm.rl import difficulty
from zgcm.rundir import difficulty as tables


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
