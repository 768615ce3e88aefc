"""Responses of some steps in one parquet file, each with all that the learner needs of it.

A row is a response: `step` (from 1), `sample_id`, `prompt_ids`, `token_ids`, `logprobs`, `finish_reason`,
`version`, `text`, `raw_reward`, `reward`, `advantage` and `left_out` (why its group is not trained on; one of
the last two is null). The file's own metadata says of which stage and initial policy it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zgcm.errors import ZgcmError
from zgcm.io import atomic_open
from zgcm.rl.experience import Judged
from zgcm.rl.prompts import Prompt
from zgcm.rl.trajectory import Groups, Trajectory

if TYPE_CHECKING:
    import pyarrow
    from tokenizers import Tokenizer

HEADER = ("stage", "policy")
NEEDED = ("step", "prompt_ids", "token_ids", "logprobs", "advantage")


@dataclass(frozen=True)
class Dump:
    stage: str
    policy: str
    """Digest of the initial policy's files."""
    batches: dict[int, list[Trajectory]]
    """Step (from 1) -> what it trains on, in the loop's own order; empty where every group was left out."""


def rows_of(
    step: int, prompts: Sequence[Prompt], groups: Groups, judged: Judged, tokenizer: "Tokenizer"
) -> list[dict[str, Any]]:
    """The rows of a step, group by group."""
    advantages = iter(item.advantage for item in judged.batch)
    return [
        {
            "step": step,
            "sample_id": prompt.sample_id,
            "prompt_ids": prompt.token_ids,
            "token_ids": response.token_ids,
            "logprobs": response.logprobs,
            "finish_reason": response.finish_reason,
            "version": response.version,
            "text": tokenizer.decode(response.token_ids, skip_special_tokens=False),
            "raw_reward": raw,
            "reward": reward,
            "advantage": next(advantages) if left_out is None else None,
            "left_out": left_out,
        }
        for prompt, group, raws, rewards, left_out in zip(
            prompts, groups, judged.raw, judged.rewards, judged.left_out, strict=True
        )
        for response, raw, reward in zip(group, raws, rewards, strict=True)
    ]


def write_dump(path: Path, rows: Sequence[dict[str, Any]], *, stage: str, policy: str) -> None:
    """Atomically, floats exact, one row group a step so that a reader need not hold all."""
    import pyarrow.parquet

    table = pyarrow.Table.from_pylist(list(rows), _schema().with_metadata({"stage": stage, "policy": policy}))
    steps = sorted({row["step"] for row in rows})
    with atomic_open(path) as stream, pyarrow.parquet.ParquetWriter(stream, table.schema) as out:
        for step in steps:
            out.write_table(table.filter(pyarrow.compute.field("step") == step))


def read_dump(path: Path) -> Dump:
    """Raises ZgcmError for a file that is no dump, or a damaged one."""
    import pyarrow.parquet

    if not path.is_file():
        raise ZgcmError(
            "There is no such dump", where=str(path), hint="make one with: zgcm rl STAGE --rollout-only"
        )
    try:
        table = pyarrow.parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise ZgcmError(
            "Not a readable parquet file", where=str(path), found=str(error).splitlines()[0]
        ) from error
    header = {
        key.decode(errors="replace"): value.decode(errors="replace")
        for key, value in (table.schema.metadata or {}).items()
    }
    missing = [name for name in HEADER if name not in header]
    missing += [name for name in NEEDED if name not in table.column_names]
    missing += [
        f"{name} of type {_schema().field(name).type}"
        for name in NEEDED
        if name in table.column_names and table.schema.field(name).type != _schema().field(name).type
    ]
    if missing:
        raise ZgcmError(
            "Not a dump of `zgcm rl --rollout-only`", where=str(path), found="no " + ", ".join(missing)
        )
    batches: dict[int, list[Trajectory]] = {}
    for place, row in enumerate(table.select(NEEDED).to_pylist()):
        if not _is_whole(row):
            raise ZgcmError(
                "A damaged row of a dump", where=f"{path}, row {place}",
                found=f"step {row['step']}", hint="make it again with: zgcm rl STAGE --rollout-only",
                expected="a step from 1, tokens, and as many log-probabilities as the response has tokens",
            )  # fmt: skip
        batch = batches.setdefault(row["step"], [])
        if row["advantage"] is not None:
            batch.append(Trajectory(row["prompt_ids"], row["token_ids"], row["logprobs"], row["advantage"]))
    return Dump(header["stage"], header["policy"], dict(sorted(batches.items())))


def _is_whole(row: dict[str, Any]) -> bool:
    step, prompt, tokens, logprobs = (row[name] for name in NEEDED[:4])
    numbers = (prompt or []) + (tokens or []) + (logprobs or [])
    return bool(
        step and step >= 1 and prompt and tokens and logprobs and len(tokens) == len(logprobs)
    ) and not any(number is None for number in numbers)


def _schema() -> "pyarrow.Schema":
    import pyarrow

    text, number, real = pyarrow.string(), pyarrow.int32(), pyarrow.float64()
    types = {
        "step": number,
        "sample_id": text,
        "prompt_ids": pyarrow.list_(number),
        "token_ids": pyarrow.list_(number),
        "logprobs": pyarrow.list_(real),
        "finish_reason": text,
        "version": number,
        "text": text,
        "raw_reward": real,
        "reward": real,
        "advantage": real,
        "left_out": text,
    }
    return pyarrow.schema(list(types.items()))
