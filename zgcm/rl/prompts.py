"""Prompt JSON Lines: read, validate, tokenize (as published), and the order in which steps use them."""

import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zgcm.errors import ZgcmError
from zgcm.io import canonical_json, sha256_bytes

REQUIRED = ("sample_id", "domain", "task_type", "messages", "answers")
ROLES = ("system", "user", "assistant", "tool")


@dataclass(frozen=True)
class Prompt:
    sample_id: str
    messages: list[dict[str, Any]]
    answers: list[str]
    benchmark: str
    token_ids: list[int]


def read_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(file:line, row) of a prompt file, blank lines skipped. Raises ZgcmError for anything else."""
    if not path.is_file():
        raise ZgcmError("No such prompt file", where=str(path), hint="correct prompts.train or prompts.valid")
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            where = f"{path}:{number}"
            try:
                row = json.loads(line)
            except ValueError as error:
                raise ZgcmError("Not valid JSON", where=where, found=str(error)) from error
            if not isinstance(row, dict):
                raise ZgcmError("A prompt is a JSON object", where=where, found=type(row).__name__)
            yield where, row


def validate(
    rows: Iterable[tuple[str, dict[str, Any]]],
    encode: Callable[[list[dict[str, Any]]], list[int]],
    *,
    domain: str,
    max_prompt_tokens: int,
    expected_rows: int | None = None,
    source: str = "prompts",
) -> list[Prompt]:
    """Check every row and tokenize it; `encode` renders messages with thinking enabled. Raises ZgcmError."""
    prompts: list[Prompt] = []
    seen: dict[str, str] = {}
    for where, row in rows:
        _check_row(where, row, domain)
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
        prompts.append(Prompt(sample_id, row["messages"], answers, benchmark, token_ids))
    if not prompts:
        raise ZgcmError("No prompts", where=source)
    if expected_rows is not None and len(prompts) != expected_rows:
        raise ZgcmError(
            "Wrong number of prompts", where=source, found=str(len(prompts)), expected=str(expected_rows)
        )
    return prompts


def _check_row(where: str, row: dict[str, Any], domain: str) -> None:
    missing = sorted(set(REQUIRED) - row.keys())
    if missing:
        raise ZgcmError("Fields are missing", where=where, found=f"no {', '.join(missing)}")
    if row["domain"] != domain:
        raise ZgcmError("Wrong domain", where=where, found=repr(row["domain"]), expected=repr(domain))
    if not isinstance(row["answers"], list) or not row["answers"]:
        raise ZgcmError("`answers` must be a non-empty list", where=where, found=repr(row["answers"])[:80])
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


def check_disjoint(train: Sequence[Prompt], valid: Sequence[Prompt]) -> None:
    """No validation prompt may be trained on, whatever its sample_id. Raises ZgcmError naming one that is."""
    trained = {canonical_json(prompt.messages): prompt.sample_id for prompt in train}
    for prompt in valid:
        same = trained.get(canonical_json(prompt.messages))
        if same is not None:
            raise ZgcmError(
                "A validation prompt is in the training set",
                where=f"sample_id {prompt.sample_id}",
                found=f"the same messages in training sample {same}",
                hint="remove it from one of the two files",
            )


def digest(prompts: Sequence[Prompt]) -> str:
    """SHA-256 over everything that the run uses of the prompts."""
    return sha256_bytes(canonical_json([[p.sample_id, p.messages, p.answers, p.token_ids] for p in prompts]))


def steps_per_epoch(count: int, batch_size: int, drop_last: bool) -> int:
    return count // batch_size if drop_last else -(-count // batch_size)


def batch_at(
    count: int, step: int, *, batch_size: int, seed: int, shuffle: bool, drop_last: bool
) -> list[int]:
    """Indices of the prompts of a step (from 0). A pure function, so a resumed run needs no saved order."""
    epoch, position = divmod(step, steps_per_epoch(count, batch_size, drop_last))
    order = list(range(count))
    if shuffle:
        random.Random(f"{seed}/{epoch}").shuffle(order)
    return order[position * batch_size : (position + 1) * batch_size]
