"""Prompt JSON Lines: read, validate, tokenize (as published), and the order in which steps use them."""

import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zgcm.config.rl import steps_per_epoch
from zgcm.errors import ZgcmError
from zgcm.io import canonical_json, sha256_bytes
from zgcm.records import read_numbered
from zgcm.rl.rewards.registry import Checkout
from zgcm.rl.sandbox.assets import TASKS

REQUIRED = ("sample_id", "domain", "task_type", "messages", "answers")
DOMAIN_FIELDS: dict[str, tuple[str, ...]] = {
    "math": (),
    "code": ("code_asset_hash",),
    "if": ("ifeval_spec",),
}
"""Fields that a domain needs besides."""
MIXED = "mixed"
"""A stage's domain whose prompts are of several."""
ROLES = ("system", "user", "assistant", "tool")


@dataclass(frozen=True)
class Prompt:
    sample_id: str
    messages: list[dict[str, Any]]
    answers: list[str]
    benchmark: str
    token_ids: list[int]
    domain: str = "math"
    """Whose judge looks at the answers: math, code or if."""
    ifeval_spec: list[dict[str, Any]] = field(default_factory=list)
    """Constraints of the domain `if`: {instruction_id, kwargs}."""
    task_type: str = ""
    """Of the domain `code`: code or code_stdio."""
    code_asset_hash: str = ""
    """Of the domain `code`: SHA-256 of its tests."""
    prompt_hash: str = ""
    """Of the domain `code`: chooses which tests run; empty: the hash of the tests does."""
    where: str = ""
    """file:line, for messages."""

    def named(self) -> str:
        """For messages."""
        name = f"sample_id {self.sample_id}"
        return f"{self.where} ({name})" if self.where else name


def read_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(file:line, row) of a file of records. Raises ZgcmError for what cannot be read or kept as it is."""
    for number, row in read_numbered(path, checked=True):
        yield f"{path}:{number}", row


def validate(
    rows: Iterable[tuple[str, dict[str, Any]]],
    encode: Callable[[list[dict[str, Any]]], list[int]],
    *,
    domain: str,
    max_prompt_tokens: int,
    expected_rows: int | None = None,
    source: str = "prompts",
    checkout: Checkout | None = None,
) -> list[Prompt]:
    """Check every row and tokenize it; `encode` renders messages with thinking enabled. `domain` is that of
    every row, or `mixed`: each row names its own; `checkout` has the checkers of instructions. Raises
    ZgcmError."""
    prompts: list[Prompt] = []
    seen: dict[str, str] = {}
    for where, row in rows:
        check_row(where, row, domain, checkout)
        own = row["domain"]
        sample_id = str(row["sample_id"])
        if sample_id in seen:
            raise ZgcmError(
                f"sample_id {sample_id!r} occurs twice", where=where, found=f"first at {seen[sample_id]}"
            )
        seen[sample_id] = where
        token_ids = encode(row["messages"])
        if len(token_ids) > max_prompt_tokens:
            raise ZgcmError(
                "A prompt is too long",
                where=where,
                found=f"{len(token_ids)} tokens",
                expected=f"at most {max_prompt_tokens} (max_prompt_tokens)",
            )
        answers = [str(answer) for answer in row["answers"]]
        benchmark = str(row.get("benchmark", ""))
        prompts.append(
            Prompt(
                *(sample_id, row["messages"], answers, benchmark, token_ids, own),
                ifeval_spec=row["ifeval_spec"] if own == "if" else [],
                task_type=row["task_type"] if own == "code" else "",
                code_asset_hash=row["code_asset_hash"] if own == "code" else "",
                prompt_hash=str(row.get("prompt_hash") or "") if own == "code" else "",
                where=where,
            )
        )
    if not prompts:
        raise ZgcmError("No prompts", where=source, hint="name a file that holds some")
    if expected_rows is not None and len(prompts) != expected_rows:
        raise ZgcmError(
            "Wrong number of prompts", where=source, found=str(len(prompts)), expected=str(expected_rows)
        )
    return prompts


def check_row(where: str, row: dict[str, Any], domain: str, checkout: Checkout | None = None) -> None:
    """Raises ZgcmError unless a row has the fields of a prompt of the domain, well formed; for `mixed`, of
    the domain that it names."""
    if domain == MIXED and "domain" in row:
        domain = row["domain"]
        if not isinstance(domain, str) or domain not in DOMAIN_FIELDS:
            known = ", ".join(DOMAIN_FIELDS)
            raise ZgcmError(
                "Unknown domain", where=where, found=repr(domain)[:80], expected=f"one of {known}"
            )
    missing = sorted({*REQUIRED, *DOMAIN_FIELDS.get(domain, ())} - row.keys())
    if missing:
        raise ZgcmError(
            "Fields are missing", where=where, found=f"no {', '.join(missing)}",
            hint="zgcm prompts convert writes rows with all fields; docs/rl.md lists them",
        )  # fmt: skip
    if row["domain"] != domain:
        raise ZgcmError(
            "Wrong domain", where=where, found=repr(row["domain"]), expected=repr(domain),
            hint="correct the row, or choose its domain: zgcm reward DOMAIN, or the stage's `domain`",
        )  # fmt: skip
    if not _is_text(row["sample_id"]):
        found = repr(row["sample_id"])[:80]
        raise ZgcmError("`sample_id` must be a string or a number", where=where, found=found)
    if not isinstance(row["answers"], list) or (domain == "math" and not row["answers"]):
        kind = "a non-empty list" if domain == "math" else "a list"
        raise ZgcmError(f"`answers` must be {kind}", where=where, found=repr(row["answers"])[:80])
    for answer in row["answers"]:
        if domain == "math" and not _is_text(answer):  # a label that no answer could ever equal
            raise ZgcmError("An answer is a string or a number", where=where, found=repr(answer)[:80])
    if domain == "code":
        _check_code(where, row)
    if domain == "if":
        from zgcm.rl.rewards.instruction import check_spec

        check_spec(where, row["ifeval_spec"], checkout)
    messages = row["messages"]
    if not isinstance(messages, list) or not messages:
        raise ZgcmError("`messages` must be a non-empty list", where=where, found=repr(messages)[:80])
    for message in messages:
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            raise ZgcmError(
                "A message needs a role",
                where=where,
                found=repr(message)[:80],
                expected=f"one of {', '.join(ROLES)}",
            )
        if not isinstance(message.get("content"), str):
            raise ZgcmError("A message needs `content`, a string", where=where, found=repr(message)[:80])


def _is_text(value: Any) -> bool:
    """A string that says something, or a number."""
    return bool(value.strip()) if isinstance(value, str) else type(value) in (int, float)


def _check_code(where: str, row: dict[str, Any]) -> None:
    if row["task_type"] not in TASKS:
        found, expected = repr(row["task_type"]), " or ".join(TASKS)
        raise ZgcmError("Wrong `task_type`", where=where, found=found, expected=expected)
    if not re.fullmatch(r"[0-9a-f]{64}", str(row["code_asset_hash"])):
        raise ZgcmError(
            "`code_asset_hash` must be a SHA-256",
            where=where, found=repr(row["code_asset_hash"])[:80], expected="64 small hexadecimal digits",
        )  # fmt: skip


def digest(prompts: Sequence[Prompt]) -> str:
    """SHA-256 over everything that the run uses of the prompts."""
    used = [[p.sample_id, p.messages, p.answers, p.token_ids, *_of_domain(p)] for p in prompts]
    return sha256_bytes(canonical_json(used))


def tests_digest(prompts: Sequence[Prompt]) -> dict[str, str]:
    """`code_tests`: SHA-256 over the names of the tests that prompts of code use, which are hashes of their
    content; empty without such prompts."""
    names = sorted({prompt.code_asset_hash for prompt in prompts if prompt.domain == "code"})
    return {"code_tests": sha256_bytes(canonical_json(names))} if names else {}


def _of_domain(prompt: Prompt) -> list[Any]:
    if prompt.domain == "if":
        return [prompt.ifeval_spec]
    if prompt.domain == "code":
        return [prompt.task_type, prompt.code_asset_hash, prompt.prompt_hash]
    return []


def batch_at(
    count: int, step: int, *, batch_size: int, seed: int, shuffle: bool, drop_last: bool
) -> list[int]:
    """Indices of the prompts of a step (from 0). A pure function, so a resumed run needs no saved order."""
    epoch, position = divmod(step, steps_per_epoch(count, batch_size, drop_last))
    order = list(range(count))
    if shuffle:
        random.Random(f"{seed}/{epoch}").shuffle(order)
    return order[position * batch_size : (position + 1) * batch_size]
