"""Pass rates of the initial policy on an RL stage's training prompts, as tables: `difficulty.parquet`.

A shard's table and the gathered one have the same columns, one row for each prompt, in the prompts' order:

    row              place among the stage's training prompts, from 0
    sample_id, domain
    samples, passes  responses, and those with a raw reward of 1
    pass_rate        passes / samples
    not_judged       responses without a verdict: timeout, died, program_too_long; they are no passes
    mean_reward      raw; differs from the pass rate where a reward can be a fraction
    mean_tokens      of the responses
    truncated        share of the responses that were cut off at the length limit
    kept, reason     gathered table only: whether the prompt is trained on; `too_easy`, `too_hard` or empty

The schema's metadata says what the numbers were made with (`made_with`). The same rows give the same bytes.
"""

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from zgcm import identity
from zgcm.config.recipe import Recipe
from zgcm.config.rl import FilePrompts, RLStage
from zgcm.errors import ZgcmError
from zgcm.io import atomic_open, canonical_json, parse_json, sha256_file
from zgcm.layout import Layout

MEASURED = pa.schema(
    [
        pa.field("row", pa.int32(), nullable=False),
        pa.field("sample_id", pa.string(), nullable=False),
        pa.field("domain", pa.string(), nullable=False),
        pa.field("samples", pa.int32(), nullable=False),
        pa.field("passes", pa.int32(), nullable=False),
        pa.field("pass_rate", pa.float64(), nullable=False),
        pa.field("not_judged", pa.int32(), nullable=False),
        pa.field("mean_reward", pa.float64(), nullable=False),
        pa.field("mean_tokens", pa.float64(), nullable=False),
        pa.field("truncated", pa.float64(), nullable=False),
    ]
)
DECIDED = pa.schema(
    [
        *MEASURED,
        pa.field("kept", pa.bool_(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
    ]
)
MADE_WITH = b"made_with"

Row = dict[str, Any]


def write_table(path: Path, schema: pa.Schema, rows: Iterable[Row], made_with: dict[str, str]) -> None:
    """Write rows, in their order, atomically."""
    schema = schema.with_metadata({MADE_WITH: canonical_json(made_with)})
    table = pa.Table.from_pylist(list(rows), schema)
    with atomic_open(path) as stream:
        pq.write_table(table, stream, compression="zstd")


def read_table(path: Path) -> tuple[list[Row], dict[str, str]]:
    """Rows, and what they were made with. Raises ZgcmError for a missing or damaged file."""
    made_with = read_made_with(path)
    with _undamaged(path):
        table = pq.read_table(path, partitioning=None)
        for field in MEASURED:
            if table.schema.field(field.name).type != field.type or table.column(field.name).null_count:
                raise ValueError(f"the column {field.name} is damaged")
    return table.to_pylist(), made_with


def read_made_with(path: Path) -> dict[str, str]:
    """What a table was made with, also one of another version with other columns. Raises as `read_table`."""
    if not path.is_file():
        raise ZgcmError(
            "A table of pass rates is missing", where=str(path), hint="run the step that makes it"
        )
    with _undamaged(path):
        found = parse_json(pq.read_schema(path).metadata[MADE_WITH])
        made_with = {str(key): str(value) for key, value in found.items()}
    return made_with


@contextlib.contextmanager
def _undamaged(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ZgcmError(
            "Not a table of pass rates", where=str(path), found=str(error)[:200],
            hint="remove it and run the step that makes it",
        ) from error  # fmt: skip


def reason(pass_rate: float, lowest: float, highest: float) -> str:
    """Why a prompt is left out; empty: it is kept. The bounds themselves are kept."""
    if pass_rate > highest:
        return "too_easy"
    return "too_hard" if pass_rate < lowest else ""


def histogram(rows: Iterable[Row]) -> dict[int, int]:
    """Passes -> prompts, for 0 to `samples` passes; zeros included."""
    counts: Counter[int] = Counter()
    most = 0
    for row in rows:
        counts[row["passes"]] += 1
        most = max(most, row["samples"])
    return {passes: counts[passes] for passes in range(most + 1)}


def in_words(counts: dict[int, int]) -> str:
    """A histogram in a line: `prompts by passes of 4: 0: 12, 1: 3, ...`."""
    listed = ", ".join(f"{passes}: {number:,}" for passes, number in counts.items())
    return f"prompts by passes of {max(counts, default=0)}: {listed}"


def prompts_file(stage: RLStage) -> str:
    """SHA-256 of the training prompts' file; empty without one. Raises ZgcmError when it is missing."""
    if not isinstance(stage.prompts, FilePrompts):
        return ""
    path = Path(stage.prompts.train)
    if not path.is_file():
        raise ZgcmError("A file of prompts is missing", where=str(path))
    return sha256_file(path)


def require_kept(recipe: Recipe, layout: Layout, name: str, policy: str) -> Path:
    """The file of kept prompts, once the table beside it was made with this recipe and policy (the digest of
    its files). Raises ZgcmError."""
    table, kept = layout.difficulty(name), layout.kept_prompts(name)
    again = (
        f"make it with: zgcm run, or zgcm pass-rates {name} SHARD for each shard and zgcm difficulty {name}"
    )
    if not table.is_file() or not kept.is_file():
        missing = kept if table.is_file() else table
        raise ZgcmError("The stage's prompts are not chosen yet", where=str(missing), hint=again)
    made_with = read_made_with(table)
    wanted = identity.recipe_id(recipe, "difficulty", name)
    file = prompts_file(recipe.rl_stages()[name])
    for what, found, expected in (
        ("bounds, prompts or sampling", made_with.get("recipe_id"), wanted),
        ("policy", made_with.get("policy"), policy),
        ("content of the prompts' file", made_with.get("prompts_file"), file),
    ):
        if found != expected:
            raise ZgcmError(
                f"The stage's prompts were chosen with another {what}",
                where=str(table), found=found or "nothing", expected=expected, hint=again,
            )  # fmt: skip
    return kept
