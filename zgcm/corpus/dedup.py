"""Which rows a mix must leave out, and why. `zgcm dedup`

The first reason that applies:

    decision:review      the source does not include that decision
    contaminated:FILE    the row shares a run of words with an evaluation file
    in_mix:NAME          an excluded earlier mix uses the same text
    exact_duplicate      another row of this mix has the same normalised text and survives
    simhash_duplicate    a row of the same source has nearly the same SimHash (the published rule)
    near_in_mix:NAME     an excluded earlier mix uses a text of the same cluster of near-duplicates
    near_duplicate       another row of this mix is the survivor of its cluster

Priority, for all of them: the source that the mix names first, then the higher quality, the longer text, the
smaller source_id. How the rows are spread over shards, and the order of jobs, decide nothing. duckdb joins
the fingerprints and spills to disk.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from zgcm.config.recipe import Recipe
from zgcm.corpus.decontaminate import SCHEMA as CONTAMINATION
from zgcm.corpus.fingerprint import SCHEMA as FINGERPRINTS
from zgcm.corpus.minhash import band_names
from zgcm.corpus.near import HashedFile, find_near_duplicates
from zgcm.corpus.spill import spill_directory
from zgcm.errors import ZgcmError
from zgcm.identity import evaluation_set
from zgcm.io import atomic_open
from zgcm.layout import Layout, compared_shards, mix_shards, used_shards
from zgcm.tokens.columns import check_columns
from zgcm.tokens.gather import SELECTION

SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("shard", pa.string()),
        ("row", pa.int32()),
        ("reason", pa.string()),
        ("of_source", pa.string()),
        ("of_shard", pa.string()),
        ("of_row", pa.int32()),
        ("similarity", pa.float32()),
        ("ngram", pa.string()),
    ]
)
"""`of_*`: the survivor. `similarity`: of near-duplicates, the largest Jaccard with one of its cluster.
`ngram`: of contaminated rows, the run of words."""

KEPT = pa.schema([("exact", pa.binary(16))])
FINGERPRINTING = "zgcm fingerprint SOURCE SHARD"
ROWS = 1 << 16
"""Rows of the answer held at a time."""
OWN_MB = 250
"""Of the step's memory for the interpreter, mapped libraries (108 MB) and batches; they do not grow."""
LEAST_MB = 400
"""The process takes so much even when the step has less."""
MEMORY_SHARE = 0.9
"""Of the rest for duckdb; the allocator's gaps take some of what is left."""

_PRIORITY = "quality DESC NULLS LAST, chars DESC, source_id"

_KNOWN = """
INSERT INTO known SELECT exact, min(mix_order)
FROM read_parquet($paths, filename = 'path') JOIN earlier ON path = kept GROUP BY exact
"""

_JUDGE = """
INSERT INTO judged
SELECT file, places.source, source_order, f."row", exact, chars, source_id,
       CASE WHEN isnan(quality) THEN NULL ELSE quality END, simhash,
       CASE WHEN included.decision IS NULL THEN 'decision:' || f.decision
            ELSE coalesce('contaminated:' || evaluation, 'in_mix:' || earlier.mix) END,
       CASE WHEN included.decision IS NOT NULL THEN ngram END
FROM read_parquet($paths, filename = 'path') f JOIN places ON path = fingerprints
LEFT JOIN included ON included.source = places.source AND included.decision = f.decision
LEFT JOIN contaminated USING (file, "row")
LEFT JOIN known USING (exact) LEFT JOIN earlier ON earlier.mix_order = known.mix_order
"""

_CONTAMINATED = """
INSERT INTO contaminated SELECT file, "row", evaluation, ngram
FROM read_parquet($paths, filename = 'path') JOIN places ON path = contamination
"""

_EXACT = f"""
CREATE TABLE ranked AS
SELECT file, "row", row_number() OVER same AS place,
       first_value(file) OVER same AS of_file, first_value("row") OVER same AS of_row
FROM judged JOIN places USING (file) WHERE reason IS NULL
WINDOW same AS (PARTITION BY exact ORDER BY judged.source_order, {_PRIORITY}, shard, "row");

INSERT INTO removed (file, "row", reason, ngram)
SELECT file, "row", reason, ngram FROM judged WHERE reason IS NOT NULL;

INSERT INTO removed (file, "row", reason, of_file, of_row)
SELECT file, "row", 'exact_duplicate', of_file, of_row FROM ranked WHERE place > 1;
"""

# The published rule looks back in the order of the stream; ours is the priority. Each fingerprint that was
# looked at counts, also those of duplicates, so the first earlier row within reach decides.
_ORDERED = f"""
CREATE OR REPLACE TABLE ordered AS
SELECT file, "row", simhash, row_number() OVER (ORDER BY {_PRIORITY}, exact) AS place
FROM judged ANTI JOIN removed USING (file, "row") WHERE source = $source
"""
_SIMHASH = """
INSERT INTO removed (file, "row", reason, of_file, of_row)
WITH slices AS (
    SELECT place, simhash, slice, (simhash >> (slice * {width})) & {mask}::UBIGINT AS value
    FROM ordered, (SELECT unnest(range({bands})) AS slice)
), found AS (
    SELECT b.place AS later, min(a.place) AS earlier
    FROM slices a JOIN slices b ON a.slice = b.slice AND a.value = b.value AND a.place < b.place
    WHERE bit_count(xor(a.simhash, b.simhash)) <= {threshold} GROUP BY b.place
)
SELECT later.file, later."row", 'simhash_duplicate', earlier.file, earlier."row"
FROM found JOIN ordered later ON later.place = found.later
JOIN ordered earlier ON earlier.place = found.earlier
"""

_PINNED = """
CREATE TABLE pinned AS
SELECT file, selected."row", min(mix_order) AS mix_order
FROM read_parquet($paths, filename = 'path') selected
JOIN selections USING (path) JOIN places USING (source, shard)
GROUP BY file, selected."row"
"""

# A table made in order numbers its rows in that order: `rowid` is the priority.
_BY_PRIORITY = f"""
CREATE TABLE by_priority AS
SELECT file, "row", mix_order FROM (
    SELECT file, "row", NULL AS mix_order, source_order, quality, chars, source_id, exact
    FROM judged ANTI JOIN removed USING (file, "row")
    UNION ALL
    SELECT file, pinned."row", mix_order, NULL, NULL, NULL, NULL, exact
    FROM pinned JOIN places USING (file)
    JOIN read_parquet($paths, filename = 'path') f ON path = fingerprints AND f."row" = pinned."row"
) ORDER BY mix_order NULLS LAST, source_order, {_PRIORITY}, exact
"""
_DOCUMENTS = """
CREATE TABLE documents AS
SELECT rowid AS doc, file, "row", mix_order IS NOT NULL AS pinned, mix_order FROM by_priority
"""

_NEAR = """
INSERT INTO removed (file, "row", reason, of_file, of_row, similarity)
SELECT d.file, d."row", coalesce('near_in_mix:' || mix, 'near_duplicate'), s.file, s."row", similarity
FROM near JOIN documents d USING (doc) JOIN documents s ON s.doc = near.survivor
LEFT JOIN earlier ON earlier.mix_order = s.mix_order
"""

_REMOVED = """
SELECT places.source, places.shard, removed."row", reason,
       of.source AS of_source, of.shard AS of_shard, of_row, similarity::FLOAT AS similarity, ngram
FROM removed JOIN places USING (file) LEFT JOIN places of ON of.file = of_file
ORDER BY places.source_order, places.shard, removed."row"
"""

_TABLES = """
CREATE TABLE places (file INT, source_order INT, source VARCHAR, shard VARCHAR, fingerprints VARCHAR,
                     contamination VARCHAR);
CREATE TABLE included (source VARCHAR, decision VARCHAR);
CREATE TABLE earlier (mix_order INT, mix VARCHAR, kept VARCHAR);
CREATE TABLE selections (path VARCHAR, mix_order INT);
CREATE TABLE contaminated (file INT, "row" INT, evaluation VARCHAR, ngram VARCHAR);
CREATE TABLE known (exact BLOB, mix_order INT);
CREATE TABLE judged (file INT, source VARCHAR, source_order INT, "row" INT, exact BLOB, chars INT,
                     source_id VARCHAR, quality FLOAT, simhash UBIGINT, reason VARCHAR, ngram VARCHAR);
CREATE TABLE removed (file INT, "row" INT, reason VARCHAR, of_file INT, of_row INT, similarity DOUBLE,
                      ngram VARCHAR);
"""


def deduplicate(recipe: Recipe, layout: Layout, mix: str) -> dict[str, int]:
    """Write the mix's duplicates.parquet and return how many rows each reason takes out, largest first.

    Raises ZgcmError when a file that it reads, of a source or of an excluded mix, is missing or damaged.
    """
    section = recipe.mixes[mix]
    own = used_shards(recipe, mix)
    counts: Counter[str] = Counter()
    with (
        spill_directory(layout.mix(mix)) as spill,
        _database(spill, section.threads, recipe.step_resources.mix.mem_mb) as database,
    ):
        database.execute(_TABLES)
        _list_inputs(database, recipe, layout, mix)
        if section.exclude:
            kept = [layout.kept(other) for other in section.exclude]
            database.execute(_KNOWN, {"paths": _parquet(kept, "zgcm mix MIX", KEPT)})
        if section.decontaminate is not None:
            evaluations = evaluation_set(section.decontaminate)
            found = [layout.contamination(*place, evaluations) for place in own]
            paths = _parquet(found, f"zgcm contamination {mix} SOURCE SHARD", CONTAMINATION)
            database.execute(_CONTAMINATED, {"paths": paths})
        prints = _parquet([layout.fingerprints(*place) for place in own], FINGERPRINTING, FINGERPRINTS)
        database.execute(_JUDGE, {"paths": prints})
        database.execute(_EXACT)
        _find_simhash_duplicates(database, recipe, mix)
        if section.near_duplicates is not None:
            _find_near_duplicates(database, recipe, layout, mix, spill)
        with (
            atomic_open(layout.duplicates(mix)) as stream,
            pq.ParquetWriter(stream, SCHEMA, compression="zstd") as writer,
        ):
            for batch in database.sql(_REMOVED).to_arrow_reader(ROWS):
                counts.update(batch["reason"].to_pylist())
                writer.write_batch(batch.cast(SCHEMA))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _list_inputs(database: duckdb.DuckDBPyConnection, recipe: Recipe, layout: Layout, mix: str) -> None:
    section = recipe.mixes[mix]
    listed = list(section.sources)
    own = set(used_shards(recipe, mix))
    evaluations = "" if section.decontaminate is None else evaluation_set(section.decontaminate)
    places = [
        (
            number,
            listed.index(source) if (source, shard) in own else None,
            source,
            shard,
            str(layout.fingerprints(source, shard)),
            str(layout.contamination(source, shard, evaluations)),
        )
        for number, (source, shard) in enumerate(compared_shards(recipe, mix))
    ]
    _fill(database, "places", places)
    _fill(database, "included", [(s, d) for s in listed for d in recipe.sources[s].include])
    earlier = [(order, other, str(layout.kept(other))) for order, other in enumerate(section.exclude)]
    _fill(database, "earlier", earlier)
    selections = [
        (str(layout.selection(other, shard)), order)
        for order, other in enumerate(section.exclude)
        for shard in mix_shards(recipe, other)
    ]
    _fill(database, "selections", selections)


def _find_simhash_duplicates(database: duckdb.DuckDBPyConnection, recipe: Recipe, mix: str) -> None:
    for source, weight in recipe.mixes[mix].sources.items():
        cleaning = recipe.sources[source].cleaning
        if not weight or not cleaning.near_dedup:
            continue
        bands = cleaning.near_dedup_bands
        width = 64 // bands
        query = _SIMHASH.format(
            bands=bands, width=width, mask=(1 << width) - 1, threshold=cleaning.near_dedup_threshold
        )
        database.execute(_ORDERED, {"source": source})
        database.execute(query)


def _find_near_duplicates(
    database: duckdb.DuckDBPyConnection, recipe: Recipe, layout: Layout, mix: str, spill: Path
) -> None:
    section = recipe.mixes[mix].near_duplicates
    assert section is not None
    places = compared_shards(recipe, mix)
    files = [HashedFile(layout.minhash(*place, section.scheme), layout.cleaned(*place)) for place in places]
    bands = pa.schema([(name, pa.uint64()) for name in band_names(section.bands)])
    making = f"zgcm minhash SOURCE SHARD --scheme {section.scheme}"
    _parquet([file.minhash for file in files], making, bands)
    prints = _parquet([layout.fingerprints(*place) for place in places], FINGERPRINTING, FINGERPRINTS)
    selections = [
        layout.selection(other, shard)
        for other in recipe.mixes[mix].exclude
        for shard in mix_shards(recipe, other)
    ]
    if selections:
        database.execute(_PINNED, {"paths": _parquet(selections, "zgcm mix MIX", SELECTION)})
    else:
        database.execute('CREATE TABLE pinned (file INT, "row" INT, mix_order INT)')
    database.execute(_BY_PRIORITY, {"paths": prints})
    database.execute(_DOCUMENTS)
    find_near_duplicates(database, files, section, spill)
    database.execute(_NEAR)


def _fill(database: duckdb.DuckDBPyConnection, table: str, rows: list[tuple[Any, ...]]) -> None:
    if rows:
        database.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)


@contextlib.contextmanager
def _database(spill: Path, threads: int, mem_mb: int) -> Iterator[duckdb.DuckDBPyConnection]:
    """duckdb in memory that spills to a directory beside its output. Raises ZgcmError when both are full.

    Columns keep their width: on one or two threads the hash table of a DISTINCT over narrow ones outgrows
    a limit below 130 MB (duckdb 2.0.1 does not count the pointers beside its rows), and the query fails.
    """
    settings: dict[str, Any] = {
        "threads": threads,
        "temp_directory": str(spill),
        "memory_limit": f"{int((max(mem_mb, LEAST_MB) - OWN_MB) * MEMORY_SHARE)}MB",
        "disabled_optimizers": "compressed_materialization",
    }
    try:
        with duckdb.connect(config=settings) as database:
            yield database
    except (duckdb.OutOfMemoryException, duckdb.IOException) as error:
        raise ZgcmError(
            "Deduplication ran out of memory or disk; nothing was left under the final name",
            where=str(spill.parent), found=str(error).splitlines()[0],
            hint="free disk space there, or raise step_resources.mix.mem_mb, and repeat the same command",
        ) from error  # fmt: skip


def _parquet(paths: list[Path], step: str, schema: pa.Schema) -> list[str]:
    """The paths as text. Raises ZgcmError for the first that is missing or damaged, naming what makes it."""
    for path in paths:
        if not path.exists():
            raise ZgcmError(
                "What deduplication compares is missing", where=str(path), hint=f"make it with: {step}"
            )
        check_columns(path, schema, made_by=step)
    return [str(path) for path in paths]
