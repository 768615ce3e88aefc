"""The whole preflight of a small recipe on this machine: what can run here really runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.train.workspace import write_recipe


@pytest.mark.slow
def test_everything_a_cpu_can_do(tmp_path: Path) -> None:
    """Two processes all-reduce, a file goes to the disk and back, bf16 trains, a checkpoint reshards."""
    recipe = write_recipe(tmp_path / "recipe.yaml", model={"num_layers": 3})  # no PP2: a third less to run
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "zgcm.cli",
            "preflight",
            "--recipe",
            recipe,
            "--directory",
            tmp_path,
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    report = json.loads((tmp_path / "results/preflight.json").read_text())
    parts = report["parts"]
    kernels = parts.pop("kernels")
    assert (kernels["status"], kernels["reason"][:6]) == ("not applicable", "no GPU")
    assert {part["status"] for part in parts.values()} == {"ran"}
    reduced = parts["allreduce"]["figures"]
    assert (reduced["backend"], reduced["processes"], reduced["wrong"]) == ("gloo", 2, [])
    assert all(row["bus_gb_s"] == pytest.approx(row["algorithm_gb_s"]) for row in reduced["bandwidth"])
    compared = parts["losses"]["figures"]["one"]
    assert compared["reference"] == "fp32" and 0 < compared["gaps"]["bf16"] < 0.02
    assert {len(curve) for curve in compared["losses"].values()} == {20}
    loaded = parts["reshard"]["figures"]["loaded"]
    assert list(loaded) == ["TP2 PP1 CP1 DP1"]
    assert loaded["TP2 PP1 CP1 DP1"]["tensors"] > 50, "the optimizer's state is compared too"
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == ["logs", "preflight.json"]
