"""The preflight of a small recipe on this machine: what can run here really runs."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.train.workspace import write_recipe
from zgcm.preflight.losses import LARGEST_GAP


def preflight(directory: Path, *options: str) -> dict[str, Any]:
    """Name of a part -> its answer; the verb must have ended with 0."""
    recipe = write_recipe(directory / "recipe.yaml", model={"num_layers": 3})  # no PP2: a third less to run
    command = [sys.executable, "-m", "zgcm.cli", "preflight", "--recipe", recipe, "--directory", directory]
    ended = subprocess.run(
        [*command, *options],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    results = directory / "results"
    assert sorted(path.name for path in results.iterdir()) == ["logs", "preflight.json"]
    return json.loads((results / "preflight.json").read_text())["parts"]


@pytest.mark.slow
def test_two_processes_reduce_and_a_file_goes_to_the_disk_and_back(tmp_path: Path) -> None:
    parts = preflight(tmp_path, "--only", "allreduce,storage")
    assert {name: part["status"] for name, part in parts.items()} == {"allreduce": "ran", "storage": "ran"}
    reduced = parts["allreduce"]["figures"]
    assert (reduced["backend"], reduced["processes"], reduced["wrong"]) == ("gloo", 2, [])
    assert all(row["bus_gb_s"] == pytest.approx(row["algorithm_gb_s"]) for row in reduced["bandwidth"])
    assert parts["storage"]["figures"]["write_bytes_per_second"] > 0


@pytest.mark.long
def test_bf16_trains_like_fp32_and_a_checkpoint_reshards(tmp_path: Path) -> None:
    parts = preflight(tmp_path)
    kernels = parts.pop("kernels")
    assert (kernels["status"], kernels["reason"][:6]) == ("not applicable", "no GPU")
    assert parts.pop("sandbox")["status"] == "not applicable"
    assert {part["status"] for part in parts.values()} == {"ran"}
    compared = parts["losses"]["figures"]["one"]
    assert compared["reference"] == "fp32" and 0 < compared["gaps"]["bf16"] <= LARGEST_GAP
    assert {len(curve) for curve in compared["losses"].values()} == {20}
    loaded = parts["reshard"]["figures"]["loaded"]
    assert list(loaded) == ["TP2 PP1 CP1 DP1"]
    assert loaded["TP2 PP1 CP1 DP1"]["tensors"] > 50, "the optimizer's state is compared too"
