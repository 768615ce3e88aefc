"""What a client may ask the sandbox for, and the limits of it."""

import json
import re
from dataclasses import dataclass
from typing import Any

from zgcm.rl.sandbox.assets import TASKS

BODY_BYTES = 1 << 20
PROGRAM_BYTES = 512 << 10
MOST_TESTS = 64
TESTS = 8
SECONDS = 2.0
SHORTEST, LONGEST = 0.1, 10.0


class BadRequest(ValueError):
    """The request itself is wrong; asking again does not help."""


@dataclass(frozen=True)
class Verify:
    """Body of POST /v1/verify."""

    program: str
    asset_hash: str
    task_type: str
    selection_seed: str
    max_tests: int = TESTS
    max_execution_time: float = SECONDS


def parse(body: bytes) -> Verify:
    """Raises BadRequest, which names the field."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as problem:
        raise BadRequest("the body is no JSON") from problem
    if not isinstance(given, dict):
        raise BadRequest("the body is no JSON object")
    program = given.get("program")
    _demand(isinstance(program, str) and bool(program.strip()), "program: a text that is not blank")
    _demand(_utf8_bytes(program) <= PROGRAM_BYTES, f"program: at most {PROGRAM_BYTES} bytes of UTF-8")
    name = given.get("asset_hash")
    _demand(bool(re.fullmatch(r"[0-9a-f]{64}", str(name))), "asset_hash: 64 small hexadecimal digits")
    task = given.get("task_type")
    _demand(task in TASKS, f"task_type: {' or '.join(TASKS)}")
    seed = given.get("selection_seed")
    _demand(isinstance(seed, str) and bool(seed), "selection_seed: a text that is not empty")
    most = given.get("max_tests", TESTS)
    _demand(type(most) is int and 1 <= most <= MOST_TESTS, f"max_tests: 1 to {MOST_TESTS}")
    seconds = given.get("max_execution_time", SECONDS)
    _demand(
        type(seconds) in (int, float) and SHORTEST <= seconds <= LONGEST,
        f"max_execution_time: {SHORTEST} to {LONGEST} seconds",
    )
    return Verify(str(program), str(name), str(task), str(seed), most, float(seconds))


def _utf8_bytes(program: Any) -> int:
    try:
        return len(program.encode())
    except UnicodeEncodeError as problem:
        raise BadRequest("program: no valid Unicode") from problem


def _demand(holds: bool, text: str) -> None:
    if not holds:
        raise BadRequest(text)
