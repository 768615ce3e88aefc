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
from zgcm.io import sha256_bytes, write_bytes, write_json
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
    rows: list[Row] = []
    tests: dict[str, bytes] = {}
    for number, (where, item) in enumerate(read_rows(source), 1):
        try:
            identity, text, fields, asset = reader(item)
        except (KeyError, TypeError, ValueError, SyntaxError) as error:
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
        rows.append(row)
    if not rows:
        raise ZgcmError("No rows", where=str(source))
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


def _gsm8k(item: Row) -> Read:
    _, mark, gold = item["answer"].rpartition("####")
    if not mark or not gold.strip():
        raise ValueError("no #### before the answer")
    return item.get("id"), item["question"], {"answers": [gold.strip()]}, None


def _math(item: Row) -> Read:
    text = item["problem"] if "problem" in item else item["question"]
    gold = item.get("answer")
    if gold is None:
        gold = last_boxed(item["solution"])
    if gold is None or not str(gold).strip():
        raise ValueError("no answer, and no \\boxed{} in the solution")
    identity = item.get("unique_id", item.get("id"))
    return identity, text, {"answers": [str(gold).strip()]}, None


def _humaneval(item: Row) -> Read:
    test = humaneval_test(item)
    text = INSTRUCTION + "Complete this:\n\n```python\n" + item["prompt"].rstrip() + "\n```"
    return item.get("task_id"), text, {}, [test]


def humaneval_test(item: Row) -> str:
    """The test of a HumanEval row, with the helpers that its prompt defines. Raises KeyError, ValueError,
    SyntaxError."""
    entry = item["entry_point"]
    test = f"{_before(item['prompt'], entry)}\n{item['test']}\n\ncheck({entry})\n"
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
    setup = item.get("test_setup_code") or "\n".join(item.get("test_imports", []))
    tests = [f"{setup}\n{test}\n".lstrip() for test in item["test_list"]]
    if not tests:
        raise ValueError("test_list is empty")
    for test in tests:
        ast.parse(test)
    shown = "\n".join(item["test_list"][:1])  # the name and the arguments are in no other place
    text = item["text"] if "text" in item else item["prompt"]
    return item.get("task_id"), f"{INSTRUCTION}{text}\n\nIt must pass this test:\n{shown}", {}, tests


def _ifeval(item: Row) -> Read:
    names, arguments = item["instruction_id_list"], item["kwargs"]
    if len(names) != len(arguments):
        raise ValueError(f"{len(names)} instructions, {len(arguments)} kwargs")
    spec = [
        {
            "instruction_id": name,
            "kwargs": {key: value for key, value in (given or {}).items() if value is not None},
        }
        for name, given in zip(names, arguments, strict=True)
    ]
    return item.get("key"), item["prompt"], {"ifeval_spec": spec}, None


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
