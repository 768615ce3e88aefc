"""Run the parts, keep their answers in results/preflight.json, and ask that file before training.

The file names the machine's kind and what the recipe asks of it. A part that is run again replaces its
answer; the others stay as long as both are the same.
"""

import contextlib
import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from typing import Any

from zgcm.config.recipe import Recipe
from zgcm.errors import ZgcmError
from zgcm.identity import changed_keys
from zgcm.io import read_json, write_json
from zgcm.layout import Layout
from zgcm.preflight import PARTS
from zgcm.preflight.answer import Answer, Task, failed
from zgcm.preflight.machine import machine
from zgcm.preflight.needs import needs_id

CHECKS: dict[str, Callable[[Task], Answer]] = {
    name: import_module(f"zgcm.preflight.{name}").check for name in PARTS
}
MAKE = "run: zgcm preflight"


def run_parts(recipe: Recipe, layout: Layout, names: list[str]) -> dict[str, Any]:
    """Run these parts, or all, one after the other; returns the report, which is also written.

    Where the widest stage has several nodes, `allreduce` runs on all of them and the rest on this one. Raises
    ZgcmError on an unknown part.
    """
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        raise ZgcmError("No such part of the preflight", found=", ".join(unknown), expected=", ".join(CHECKS))
    names = names or list(CHECKS)
    here, asked = machine(), needs_id(recipe)
    parts = kept(layout, here, asked)
    report = {"recipe": recipe.name, "needs": asked, "machine": here, "parts": parts}
    work = layout.preflight_work / str(os.getpid())
    try:
        for name in names:
            print(f"zgcm: preflight {name}", file=sys.stderr, flush=True)
            parts[name] = answer(name, Task(recipe, layout, work / name, layout.root / "logs" / "preflight"))
            write_json(layout.preflight, report)
    finally:
        shutil.rmtree(work, ignore_errors=True)
        with contextlib.suppress(OSError):  # another preflight may still work below it
            layout.preflight_work.rmdir()
    return report


def answer(name: str, task: Task) -> dict[str, Any]:
    """What a part answers; one that breaks has failed with that reason, and the others still run."""
    task.work.mkdir(parents=True)
    began = time.time()
    try:
        found = CHECKS[name](task)
    except ZgcmError as error:
        found = failed(error.paragraph())
    except OSError as error:
        found = failed(f"{type(error).__name__}: {error}")
    except Exception as error:  # of whatever library: the other parts still run
        traceback.print_exc()
        found = failed(f"{type(error).__name__}: {error}")
    finally:
        shutil.rmtree(task.work)
    return {**found.as_dict(), "began": began, "seconds": time.time() - began}


def kept(layout: Layout, here: dict[str, Any], asked: str) -> dict[str, Any]:
    """Answers of an earlier preflight of this kind of machine and these needs."""
    if not layout.preflight.exists():
        return {}
    before = read_json(layout.preflight)
    same = before["machine"] == here and before["needs"] == asked
    return {name: before["parts"][name] for name in CHECKS if name in before["parts"]} if same else {}


def require(recipe: Recipe, layout: Layout) -> None:
    """Raises ZgcmError unless every part ran, or does not apply, on this kind of machine for this recipe."""
    where = str(layout.preflight)
    if not layout.preflight.exists():
        raise ZgcmError("The recipe says `preflight: true`, and there was none", where=where, hint=MAKE)
    report, here = read_json(layout.preflight), machine()
    if report["machine"] != here:
        keys = changed_keys(report["machine"], here)
        raise ZgcmError(
            "The preflight was made on another kind of machine",
            where=where,
            found=", ".join(f"{key} {_at(here, key)}" for key in keys),
            expected=", ".join(f"{key} {_at(report['machine'], key)}" for key in keys),
            hint=f"{MAKE}, on the machine that trains",
        )
    if report["needs"] != needs_id(recipe):
        raise ZgcmError("The preflight was made for other settings of the recipe", where=where, hint=MAKE)
    missing = [name for name in CHECKS if name not in report["parts"]]
    if missing:
        raise ZgcmError(
            "Parts of the preflight were never run",
            where=where,
            found=", ".join(missing),
            hint=f"{MAKE} --only {','.join(missing)}",
        )
    if broken := failures(report):
        reasons = "; ".join(f"{name}: {report['parts'][name]['reason']}" for name in broken)
        raise ZgcmError(
            f"The preflight failed: {reasons}",
            where=where,
            hint=f"mend it, then {MAKE} --only {','.join(broken)}",
        )


def failures(report: dict[str, Any]) -> list[str]:
    return [name for name, part in report["parts"].items() if part["status"] == "failed"]


def _at(value: Any, path: str) -> Any:
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value
