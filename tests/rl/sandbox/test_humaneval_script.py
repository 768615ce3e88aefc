"""scripts/humaneval.py on tasks of our own in HumanEval's format."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parents[3] / "scripts" / "humaneval.py"
TASKS = {  # name: (arguments, body, a call and its value)
    "double": ("n", "return 2 * n", ("4", 8)),
    "last": ("items", "return items[-1]", ("[1, 5, 3]", 3)),
    "vowels": ("text", "return sum(letter in 'aeiou' for letter in text)", ("'education'", 5)),
    "merged": ("left, right", "return sorted(left + right)", ("[3, 1], [2]", [1, 2, 3])),
    "is_even": ("n", "return n % 2 == 0", ("10", True)),
}


def judge(path: Path, **bodies: str) -> tuple[int, dict]:
    """Exit code and summary. `bodies` takes the place of a task's own solution."""
    rows = [
        {
            "task_id": f"own/{name}",
            "prompt": f'def {name}({arguments}):\n    """One of our own."""\n',
            "canonical_solution": f"    {bodies.get(name, body)}\n",
            "entry_point": name,
            "test": f"def check(candidate):\n    assert candidate({call}) == {value!r}\n",
        }
        for name, (arguments, body, (call, value)) in TASKS.items()
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = subprocess.run([sys.executable, SCRIPT, "--data", path], capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout)


def test_right_solutions_pass_and_empty_ones_do_not(tmp_path: Path) -> None:
    code, summary = judge(tmp_path / "tasks.jsonl")
    assert (code, summary["wrong"]) == (0, [])
    assert (summary["canonical_passed"], summary["return_none_passed"], summary["tasks"]) == (5, 0, 5)


def test_a_wrong_solution_is_named(tmp_path: Path) -> None:
    code, summary = judge(tmp_path / "tasks.jsonl", double="return 3 * n")
    assert (code, summary["wrong"], summary["canonical_passed"]) == (1, ["own/double"], 4)
