"""A benchmark says what it measures before anybody waits for it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[1] / "scripts/bench").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_help_is_help_and_a_slip_is_refused(script: Path) -> None:
    about = str(ast.get_docstring(ast.parse(script.read_text()))).splitlines()[0]
    asked, slip = (
        subprocess.run([sys.executable, script, option], capture_output=True, text=True, timeout=60)
        for option in ("--help", "--no-such-option")
    )
    assert asked.returncode == 0 and asked.stdout.startswith("usage: ") and about in asked.stdout
    assert slip.returncode == 2 and not slip.stdout
