"""Which rows a mix must leave out, and why. `zgcm dedup`

Three reasons, the first that applies: `decision:review` (the source does not include that decision),
`in_mix:NAME` (an excluded earlier mix uses the same text), `exact_duplicate` (another row of this mix has the
same normalised text and survives). Of equal texts the survivor is the one of the source that the mix names
first, then the higher quality, the longer text, the smaller source_id. How the rows are spread over shards,
and the order of jobs, decide nothing. duckdb joins the fingerprints and spills to disk.
"""

import contextlib
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from zgcm.config.recipe import Recipe
from zgcm.errors import ZgcmError
from zgcm.io import atomic_open, read_json
from zgcm.layout import Layout, source_shards
from zgcm.records import read_records

SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("shard", pa.string()),
        ("row", pa.int32()),
        ("reason", pa.string()),
        ("of_source", pa.string()),
        ("of_shard", pa.string()),
        ("of_row", pa.int32()),
    ]
)

ROWS = 1 << 16
"""Rows of the answer held at a time."""
SUMMARY_NAMES = {"keep": "kept", "review": "review"}
"""Decision -> its counter in a cleaning summary."""

_KNOWN = """
CREATE TABLE known AS SELECT exact, arg_min(mix, mix_order) AS mix
FROM read_parquet($files, filename = 'file') JOIN kept_mixes USING (file) GROUP BY exact
"""

_JUDGE = """
CREATE TABLE judged AS
SELECT source_order, source, shard, "row", f.exact, chars, source_id,
       CASE WHEN isnan(quality) THEN NULL ELSE quality END AS quality,
       coalesce(left_out.reason, 'in_mix:' || known.mix) AS reason
FROM read_parquet($files, filename = 'file') f
JOIN places USING (file) LEFT JOIN left_out USING (source, shard, "row") LEFT JOIN known USING (exact)
"""

_DUPLICATES = """
WITH ranked AS (
    SELECT source_order, source, shard, "row", row_number() OVER same AS place,
           first_value(source) OVER same AS of_source, first_value(shard) OVER same AS of_shard,
           first_value("row") OVER same AS of_row
    FROM judged WHERE reason IS NULL
    WINDOW same AS (PARTITION BY exact ORDER BY source_order, quality DESC NULLS LAST, chars DESC, source_id,
                    shard, "row")
), out AS (
    SELECT source_order, source, shard, "row", reason, NULL AS of_source, NULL AS of_shard, NULL AS of_row
    FROM judged WHERE reason IS NOT NULL
    UNION ALL
    SELECT source_order, source, shard, "row", 'exact_duplicate', of_source, of_shard, of_row
    FROM ranked WHERE place > 1
)
SELECT source, shard, "row", reason, of_source, of_shard, of_row FROM out ORDER BY source_order, shard, "row"
"""


def deduplicate(recipe: Recipe, layout: Layout, mix: str) -> dict[str, int]:
    """Write the mix's duplicates.parquet and return how many rows each reason takes out, largest first.

    Raises ZgcmError when a fingerprint file of a source, or of an excluded mix, is missing.
    """
    section = recipe.mixes[mix]
    places = [
        (str(layout.fingerprints(source, shard)), order, source, shard)
        for order, (source, weight) in enumerate(section.sources.items())
        if weight > 0
        for shard in source_shards(recipe, source)
    ]
    kept = [(str(layout.kept(other)), order, other) for order, other in enumerate(section.exclude)]
    for path, *_ in places:
        _require(path, "zgcm fingerprint SOURCE SHARD")
    for path, *_ in kept:
        _require(path, "zgcm mix MIX")
    left_out = [
        (source, shard, row, reason)
        for _, _, source, shard in places
        for row, reason in not_included(recipe, layout, source, shard)
    ]
    counts: Counter[str] = Counter()
    with (
        atomic_open(layout.duplicates(mix)) as stream,
        _database(layout.mix(mix), section.threads) as database,
        pq.ParquetWriter(stream, SCHEMA, compression="zstd") as writer,
    ):
        _create(database, "places(file VARCHAR, source_order INT, source VARCHAR, shard VARCHAR)", places)
        _create(database, "kept_mixes(file VARCHAR, mix_order INT, mix VARCHAR)", kept)
        _create(database, 'left_out(source VARCHAR, shard VARCHAR, "row" INT, reason VARCHAR)', left_out)
        if kept:
            database.execute(_KNOWN, {"files": [path for path, *_ in kept]})
        else:
            database.execute("CREATE TABLE known(exact BLOB, mix VARCHAR)")
        database.execute(_JUDGE, {"files": [path for path, *_ in places]})
        batches: pa.RecordBatchReader = database.sql(_DUPLICATES).to_arrow_reader(ROWS)
        for batch in batches:
            counts.update(batch["reason"].to_pylist())
            writer.write_batch(batch.cast(SCHEMA))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def not_included(recipe: Recipe, layout: Layout, source: str, shard: str) -> Iterator[tuple[int, str]]:
    """Rows whose decision the source does not include, with the reason. Reads the shard's text only when its
    cleaning summary says that there are such rows."""
    include = recipe.sources[source].include
    summary = read_json(layout.cleaning_summary(source, shard))
    if not any(summary[name] for decision, name in SUMMARY_NAMES.items() if decision not in include):
        return
    for row, record in enumerate(read_records(layout.cleaned(source, shard))):
        if record["decision"] not in include:
            yield row, f"decision:{record['decision']}"


def _create(database: duckdb.DuckDBPyConnection, table: str, rows: list[tuple[Any, ...]]) -> None:
    database.execute(f"CREATE TABLE {table}")
    if rows:
        marks = ", ".join("?" for _ in rows[0])
        database.executemany(f"INSERT INTO {table.split('(')[0]} VALUES ({marks})", rows)


@contextlib.contextmanager
def _database(directory: Path, threads: int) -> Iterator[duckdb.DuckDBPyConnection]:
    """duckdb in memory that spills beside its output; nothing stays behind."""
    with tempfile.TemporaryDirectory(prefix=".dedup-", dir=directory) as spill:
        settings: dict[str, Any] = {"threads": threads, "temp_directory": spill}
        with duckdb.connect(config=settings) as database:
            yield database


def _require(path: str, step: str) -> None:
    if not Path(path).exists():
        raise ZgcmError("Fingerprints are missing", where=path, hint=f"make them with: {step}")
    try:
        pq.ParquetFile(path).close()
    except pa.ArrowInvalid as error:
        raise ZgcmError(
            "Fingerprints are damaged", where=path, found=str(error).splitlines()[0],
            hint=f"remove the file and make it again with: {step}",
        ) from error  # fmt: skip
