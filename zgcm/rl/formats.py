"""Public benchmark files -> our prompt rows: `zgcm prompts convert`.

gsm8k      question, answer whose last line is `#### GOLD`
math       problem (or question) and answer, or a solution with the answer in its last \\boxed{}
humaneval  prompt, test, entry_point: tests become a content-addressed asset
mbpp       text (or prompt), test_list, and test_setup_code or test_imports
ifeval     prompt, instruction_id_list, kwargs
"""

import ast
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zgcm.errors import ZgcmError
from zgcm.io import not_the_input, sha256_bytes, write_bytes, write_json
from zgcm.records import write_records
from zgcm.rl.completion import last_boxed
from zgcm.rl.prompts import check_row, read_rows

Row = dict[str, Any]
INSTRUCTION = "Write a Python program. Put it in one block fenced as python.\n\n"


def convert(source: Path, output: Path, form: str, assets: Path | None, name: str) -> dict[str, Any]:
    """Write prompt rows, in order; for code also their tests under `assets`. Raises ZgcmError with file:line.

    sample_id is `NAME/ID`, ID the source's own id or the row's number. Returns counts.
    """
    domain, reader = FORMATS[form]
    if domain == "code" and assets is None:
        raise ZgcmError("Tests of code need a place", expected="--assets DIRECTORY")
    not_the_input(output, source)
    rows: list[Row] = []
    tests: dict[str, bytes] = {}
    seen: dict[str, str] = {}
    for number, (where, item) in enumerate(read_rows(source), 1):
        try:
            identity, text, fields, asset = reader(item)
        except (KeyError, TypeError, ValueError, SyntaxError, MemoryError) as error:
            raise ZgcmError(
                f"Not a row of the format {form}", where=where,
                found=f"no {error}" if isinstance(error, KeyError) else str(error)[:200],
                hint=f"the format: {FIELDS[form]}",
            ) from error  # fmt: skip
        row: Row = {
            "sample_id": f"{name}/{number if identity is None else identity}",
            "domain": domain,
            "task_type": domain,
            "messages": [{"role": "user", "content": text}],
            "answers": [],
            "benchmark": name,
            **fields,
        }
        if asset is not None:
            packed = json.dumps(asset, ensure_ascii=False).encode()
            row["code_asset_hash"] = sha256_bytes(packed)
            tests[row["code_asset_hash"]] = packed
        check_row(where, row, domain)
        if (first := seen.setdefault(row["sample_id"], where)) != where:
            raise ZgcmError(
                f"sample_id {row['sample_id']!r} occurs twice", where=where, found=f"first at {first}",
                hint="give each row an id of its own, or none",
            )  # fmt: skip
        rows.append(row)
    if not rows:
        raise ZgcmError("No rows", where=str(source), hint="name a file that holds some")
    if assets is not None:
        write_assets(assets, tests)
    write_records(output, rows)
    return {"rows": len(rows), "domain": domain, "assets": len(tests), "output": str(output)}


def write_assets(root: Path, tests: dict[str, bytes]) -> None:
    """`root/ab/abcd….json.gz` for each hash, then `manifest.json` over everything under root. Tests that are
    there stay: several files may share a root."""
    for name, packed in tests.items():
        write_bytes(root / name[:2] / f"{name}.json.gz", gzip.compress(packed, mtime=0))
    known = sorted(path.name.removesuffix(".json.gz") for path in root.glob("[0-9a-f][0-9a-f]/*.json.gz"))
    digest = sha256_bytes("\n".join(known).encode())
    write_json(root / "manifest.json", {"assets": known, "sha256": digest})


Read = tuple[Any, str, Row, list[str] | None]
"""(id of its own or None, what the user says, more fields, tests)."""


def _text(item: Row, name: str) -> str:
    if not isinstance(item[name], str):
        raise ValueError(f"`{name}` is no string but {item[name]!r}")
    return str(item[name])


def _texts(item: Row, name: str) -> list[str]:
    if not isinstance(item[name], list) or not all(isinstance(text, str) for text in item[name]):
        raise ValueError(f"`{name}` is no list of strings but {item[name]!r}")
    return list(item[name])


def _identity(item: Row, *names: str) -> str | int | None:
    """The first of some fields that is there."""
    found = next((item[name] for name in names if item.get(name) is not None), None)
    if found is not None and type(found) not in (str, int):
        raise ValueError(f"the id is no string or number but {found!r}")
    return found


def _gsm8k(item: Row) -> Read:
    _, mark, gold = _text(item, "answer").rpartition("####")
    if not mark or not gold.strip():
        raise ValueError("no #### before the answer")
    return _identity(item, "id"), _text(item, "question"), {"answers": [gold.strip()]}, None


def _math(item: Row) -> Read:
    text = _text(item, "problem" if "problem" in item else "question")
    gold = item.get("answer")
    if gold is None:
        gold = last_boxed(_text(item, "solution"))
    if type(gold) in (int, float):
        gold = str(gold)
    if isinstance(gold, str) and "####" in gold:  # a label that no answer equals
        raise ValueError("the answer is a whole solution that ends with #### GOLD: --format gsm8k reads that")
    if not isinstance(gold, str) or not gold.strip():
        raise ValueError(f"no answer, and no \\boxed{{}} in the solution, but {gold!r}")
    return _identity(item, "unique_id", "id"), text, {"answers": [gold.strip()]}, None


def _humaneval(item: Row) -> Read:
    test = humaneval_test(item)
    text = INSTRUCTION + "Complete this:\n\n```python\n" + _text(item, "prompt").rstrip() + "\n```"
    return _identity(item, "task_id"), text, {}, [test]


def humaneval_test(item: Row) -> str:
    """The test of a HumanEval row, with the helpers that its prompt defines. Raises KeyError, ValueError,
    SyntaxError."""
    entry = _text(item, "entry_point")
    test = f"{_before(_text(item, 'prompt'), entry)}\n{_text(item, 'test')}\n\ncheck({entry})\n"
    ast.parse(test)
    return test


def _before(prompt: str, entry: str) -> str:
    """Imports and helper functions that the trusted prompt defines before the function to write."""
    lines = prompt.splitlines()
    for place, line in enumerate(lines):
        if line.startswith((f"def {entry}(", f"async def {entry}(")):
            return "\n".join(lines[:place]).strip()
    raise ValueError(f"the prompt does not define {entry}")


def _mbpp(item: Row) -> Read:
    names = ("test_setup_code", "test_imports")
    name = next((name for name in names if item.get(name)), "")
    setup = "" if not name else _text(item, name) if name == names[0] else "\n".join(_texts(item, name))
    shown = _texts(item, "test_list")
    tests = [f"{setup}\n{test}\n".lstrip() for test in shown]
    if not tests:
        raise ValueError("test_list is empty")
    for test in tests:
        ast.parse(test)
    text = _text(item, "text" if "text" in item else "prompt")
    asked = f"{INSTRUCTION}{text}\n\nIt must pass this test:\n{shown[0]}"  # no other place has the name
    return _identity(item, "task_id"), asked, {}, tests


def _ifeval(item: Row) -> Read:
    names, arguments = _texts(item, "instruction_id_list"), item["kwargs"]
    if not isinstance(arguments, list) or not all(
        given is None or isinstance(given, dict) for given in arguments
    ):
        raise ValueError(f"`kwargs` is no list of objects but {arguments!r}")
    if len(names) != len(arguments):
        raise ValueError(f"{len(names)} instructions, {len(arguments)} kwargs")
    spec = [
        {
            "instruction_id": name,
            "kwargs": {key: value for key, value in (given or {}).items() if value is not None},
        }
        for name, given in zip(names, arguments, strict=True)
    ]
    return _identity(item, "key"), _text(item, "prompt"), {"ifeval_spec": spec}, None


FORMATS: dict[str, tuple[str, Callable[[Row], Read]]] = {
    "gsm8k": ("math", _gsm8k),
    "math": ("math", _math),
    "humaneval": ("code", _humaneval),
    "mbpp": ("code", _mbpp),
    "ifeval": ("if", _ifeval),
}
FIELDS = {
    "gsm8k": "question, answer (#### GOLD)",
    "math": "problem or question; answer, or solution with \\boxed{}",
    "humaneval": "prompt, test, entry_point",
    "mbpp": "text or prompt, test_list",
    "ifeval": "prompt, instruction_id_list, kwargs",
}
