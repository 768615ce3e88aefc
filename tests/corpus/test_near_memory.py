"""The memory of `zgcm dedup` is that of its step, and four times the documents do not need more."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "scripts" / "bench" / "near_dedup_memory.py"


@pytest.mark.slow
def test_documents_do_not_add_memory():
    sizes = ["--documents", "500000", "1500000", "--mem-mb", "400", "--every", "50"]
    said = subprocess.run([sys.executable, str(BENCH), *sizes], check=True, capture_output=True, text=True)
    small, large = map(json.loads, said.stdout.splitlines())
    assert large["spill_mb"] > small["spill_mb"]  # else memory was never short
    assert large["removed"] == 30_000
    assert max(small["peak_mb"], large["peak_mb"]) <= 400
    assert large["peak_mb"] <= 1.25 * small["peak_mb"]
