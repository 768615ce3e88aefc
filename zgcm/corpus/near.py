"""Near-duplicates among the documents of a duckdb table, on disk.

    1. Candidates: band by band, documents whose band hashes agree form a bucket. In a bucket every document
       is compared with the first HUBS of it by priority: n documents give at most HUBS x n pairs.
    2. Verification: exact Jaccard of the shingle sets, recomputed from the cleaned text of candidates only.
    3. Clusters: connected components of the verified pairs. The survivor is the first by priority.

Everything lies in duckdb tables, which spill, and in one flat file of shingle sets. Python holds a batch of
pairs and two sets, whatever the number of documents. The result depends on the documents and their priority,
not on files, threads or the order in which anything ends.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import batched, groupby
from operator import itemgetter
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from zgcm.config.corpus import NearDuplicates
from zgcm.corpus.minhash import band_names
from zgcm.corpus.shingles import jaccard, shingles
from zgcm.errors import ZgcmError
from zgcm.records import training_text
from zgcm.records.lines import read_lines
from zgcm.records.parse import Record, parse_object

HUBS = 32
"""Documents of a bucket that all its others are compared with. A bucket of up to 33 is compared in full; of a
larger one, two documents that both resemble none of the first 32 are not."""
ROWS = 1 << 16
"""Pairs or documents held at a time."""

# Values that occur once are dropped first: only the few documents that share one are joined and sorted.
_BUCKETS = """
INSERT INTO pairs
WITH shared AS (
    SELECT {band} AS value FROM read_parquet($paths) WHERE {band} IS NOT NULL
    GROUP BY value HAVING count(*) > 1
), buckets AS (
    SELECT doc, pinned, value, row_number() OVER (PARTITION BY value ORDER BY doc) AS place
    FROM read_parquet($paths, filename = 'path', file_row_number = true) hashes
    JOIN shared ON shared.value = {band}
    JOIN hashed USING (path)
    JOIN documents ON documents.file = hashed.file AND documents."row" = hashes.file_row_number
)
SELECT first.doc, second.doc
FROM buckets first JOIN buckets second ON first.value = second.value AND first.place < second.place
WHERE first.place <= {hubs} AND NOT second.pinned
"""

_WANTED = """
SELECT file, "row", doc FROM documents
JOIN (SELECT first AS doc FROM candidates UNION SELECT second FROM candidates) USING (doc)
ORDER BY file, "row"
"""

# The sizes alone rule out a pair whose smaller set is less than `threshold` of the larger.
_PAIRS = """
SELECT first, second, a.start AS a_start, a.length AS a_length, b.start AS b_start, b.length AS b_length
FROM candidates JOIN sets a ON a.doc = first JOIN sets b ON b.doc = second
WHERE least(a.length, b.length) / greatest(a.length, b.length) >= $threshold
ORDER BY first, second
"""

_START = """
CREATE OR REPLACE TABLE labels AS
SELECT doc, doc AS label FROM (SELECT first AS doc FROM edges UNION SELECT second FROM edges)
"""

# Every document takes the smallest label among its neighbours, and then the label of that label: so a chain
# of n documents needs about log2(n) rounds, not n.
_SPREAD = """
CREATE OR REPLACE TABLE spread AS
SELECT doc, min(label) AS label FROM (
    FROM labels
    UNION ALL SELECT second, label FROM edges JOIN labels ON doc = first
    UNION ALL SELECT first, label FROM edges JOIN labels ON doc = second
) GROUP BY doc
"""
_JUMP = """
CREATE OR REPLACE TABLE jumped AS
SELECT a.doc, b.label FROM spread a JOIN spread b ON a.label = b.doc
"""
_CHANGED = "SELECT count(*) FROM labels JOIN jumped USING (doc) WHERE labels.label <> jumped.label"

_NEAR = """
CREATE OR REPLACE TABLE near AS
SELECT doc, any_value(label) AS survivor, max(similarity) AS similarity
FROM labels JOIN documents USING (doc) JOIN (
    SELECT first AS doc, similarity FROM edges UNION ALL SELECT second, similarity FROM edges
) USING (doc)
WHERE doc <> label AND NOT pinned GROUP BY doc
"""


@dataclass(frozen=True)
class HashedFile:
    """A cleaned shard and its band hashes."""

    minhash: Path
    cleaned: Path


def find_near_duplicates(
    database: duckdb.DuckDBPyConnection, files: list[HashedFile], section: NearDuplicates, spill: Path
) -> None:
    """Make table near(doc, survivor, similarity): every document that is not its cluster's survivor, with the
    largest exact similarity among its verified pairs.

    Reads table documents(doc BIGINT, file INT, "row" INT, pinned BOOLEAN): `doc` is the priority, smallest
    first; `file` a position in `files`; pinned documents come first, always survive and are not compared with
    one another.
    """
    find_candidates(database, [file.minhash for file in files], section)
    with (spill / "shingles").open("w+b") as sets:
        _store_sets(database, [file.cleaned for file in files], section.ngram, sets.fileno())
        _verify(database, section.threshold, sets.fileno())
    (spill / "shingles").unlink()
    join_clusters(database)
    database.execute(_NEAR)
    for table in ("pairs", "candidates", "sets", "edges", "labels"):
        database.execute(f"DROP TABLE {table}")


def find_candidates(
    database: duckdb.DuckDBPyConnection, minhash: list[Path], section: NearDuplicates
) -> None:
    """Make table candidates(first, second): pairs that share a bucket, the smaller document first."""
    paths = [str(path) for path in minhash]
    database.execute("CREATE OR REPLACE TABLE hashed (path VARCHAR, file INT)")
    insert(database, "hashed", path=paths, file=np.arange(len(paths), dtype=np.int32))
    database.execute("CREATE OR REPLACE TABLE pairs (first BIGINT, second BIGINT)")
    for band in band_names(section.bands):
        database.execute(_BUCKETS.format(band=band, hubs=HUBS), {"paths": paths})
    database.execute("CREATE OR REPLACE TABLE candidates AS SELECT DISTINCT first, second FROM pairs")


def _store_sets(database: duckdb.DuckDBPyConnection, cleaned: list[Path], width: int, output: int) -> None:
    """Append the shingle sets of all candidates to a file; table sets(doc, start, length) says where."""
    database.execute("CREATE OR REPLACE TABLE sets (doc BIGINT, start BIGINT, length BIGINT)")
    start = 0
    for batch in batched(_write_sets(_wanted(database.cursor()), cleaned, width, output), ROWS):
        documents, lengths = np.array(batch, np.int64).T
        ends = start + np.cumsum(lengths)
        insert(database, "sets", doc=documents, start=ends - lengths, length=lengths)
        start = int(ends[-1])


def _wanted(database: duckdb.DuckDBPyConnection) -> Iterator[tuple[int, int, int]]:
    """File, row and number of every candidate, shard by shard."""
    for batch in database.sql(_WANTED).to_arrow_reader(ROWS):
        columns = (integers(batch[name]).tolist() for name in ("file", "row", "doc"))
        yield from zip(*columns, strict=True)


def _write_sets(
    wanted: Iterator[tuple[int, int, int]], cleaned: list[Path], width: int, output: int
) -> Iterator[tuple[int, int]]:
    """Number and size of each set, once it is written. Every shard is read once."""
    for file, group in groupby(wanted, itemgetter(0)):
        for document, record in _records_at(cleaned[file], group):
            found = shingles(training_text(record["data"], record["text_fields"]), width)
            _write_all(output, found.tobytes())
            yield document, len(found)


def _records_at(path: Path, wanted: Iterator[tuple[int, int, int]]) -> Iterator[tuple[int, Record]]:
    """Documents and their records at ascending rows of a cleaned shard; other lines are not parsed."""
    _, row, document = next(wanted)
    for line in read_lines(path):
        if line.number == row + 1:
            yield document, parse_object(line.data)
            _, row, document = next(wanted, (-1, -1, -1))
            if row < 0:
                return
    raise ZgcmError(
        "A cleaned shard has fewer rows than its fingerprints", where=str(path), hint="make both again"
    )


def _write_all(output: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(output, view) :]


def _verify(database: duckdb.DuckDBPyConnection, threshold: float, sets: int) -> None:
    """Make table edges(first, second, similarity): candidates whose exact Jaccard is at least `threshold`."""
    database.execute("CREATE OR REPLACE TABLE edges (first BIGINT, second BIGINT, similarity DOUBLE)")
    pairs = database.cursor().sql(_PAIRS, params={"threshold": threshold})
    last, mine = -1, np.empty(0, np.uint64)
    for batch in pairs.to_arrow_reader(ROWS):
        columns = [integers(batch[name]).tolist() for name in batch.schema.names]
        similarity = np.zeros(batch.num_rows)
        for number, (first, _, *places) in enumerate(zip(*columns, strict=True)):
            if first != last:  # pairs come sorted, so a set is read once for all its partners
                last, mine = first, _read_set(sets, *places[:2])
            similarity[number] = jaccard(mine, _read_set(sets, *places[2:]))
        close = similarity >= threshold
        first, second = (integers(batch[name])[close] for name in ("first", "second"))
        insert(database, "edges", first=first, second=second, similarity=similarity[close])


def _read_set(sets: int, start: int, length: int) -> np.ndarray:
    return np.frombuffer(os.pread(sets, 8 * length, 8 * start), np.uint64)


def join_clusters(database: duckdb.DuckDBPyConnection) -> None:
    """Make table labels(doc, label) of the documents in edges(first, second): the smallest of each connected
    component."""
    database.execute(_START)
    while True:
        database.execute(_SPREAD)
        database.execute(_JUMP)
        changed = database.sql(_CHANGED).fetchall()[0][0]
        for table in ("labels", "spread"):
            database.execute(f"DROP TABLE {table}")
        database.execute("ALTER TABLE jumped RENAME TO labels")
        if not changed:
            return


_ARROW = {"i4": pa.int32(), "i8": pa.int64(), "f8": pa.float64()}


def insert(database: duckdb.DuckDBPyConnection, table: str, **columns: np.ndarray | list[str]) -> None:
    """Append rows, column by column; `executemany` takes a millisecond a row."""
    arrays = [
        pa.array(values, pa.string())
        if isinstance(values, list)
        else pa.Array.from_buffers(
            _ARROW[values.dtype.str[1:]], len(values), [None, pa.py_buffer(np.ascontiguousarray(values))]
        )
        for values in columns.values()
    ]
    database.register("inserted", pa.Table.from_arrays(arrays, list(columns)))
    database.execute(f"INSERT INTO {table} BY NAME SELECT * FROM inserted")
    database.unregister("inserted")


def integers(column: pa.Array) -> np.ndarray:
    """An integer column without nulls as numpy, without pandas."""
    kind = np.dtype(np.int32 if column.type == pa.int32() else np.int64)
    return np.frombuffer(column.buffers()[1], kind)[column.offset : column.offset + len(column)]
