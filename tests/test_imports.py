"""Packages of zgcm import one another in one direction only: what several share lies below them."""

import ast
import subprocess
import sys
from collections import defaultdict
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]


def imported(path: Path) -> set[str]:
    """Packages and single modules right below `zgcm` that a file imports, also inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "zgcm":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("zgcm."):
            found.add(str(node.module).split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("zgcm.")}
    return found


def test_no_cycles() -> None:
    below: dict[str, set[str]] = defaultdict(set)
    for path in (ROOT / "zgcm").rglob("*.py"):
        part = path.relative_to(ROOT / "zgcm").with_suffix("").parts[0]
        below[part] |= imported(path) - {part}
    order = list(TopologicalSorter(below).static_order())  # raises CycleError, which names the cycle
    assert order.index("io") < order.index("train") < order.index("cli")


def test_the_trainer_loads_no_recipe_models() -> None:
    """They and pydantic cost every rank of every start half a second."""
    parts = ("entry", "hooks", "publish", "trackers", "datasets", "muon")
    code = f"import sys, {', '.join(f'zgcm.train.{part}' for part in parts)}; print(*sorted(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = ran.stdout.split()
    assert "zgcm.train.publish" in loaded
    assert not [name for name in loaded if name.startswith("zgcm.config.")]
