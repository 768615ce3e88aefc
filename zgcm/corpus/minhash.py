"""MinHash bands of a cleaned shard: where near-duplicates meet. `zgcm minhash`

    {shard}.{bands}x{rows}x{ngram}.minhash    parquet; row i is record i; uint64 columns band_00, band_01, ...

Each band is the hash of `rows` MinHash values (rensa's R-MinHash over shingles of `ngram` words). Two texts
of Jaccard similarity s share at least one band with probability 1 - (1 - s^rows)^bands. A text without words
has nulls. 8 bytes a band: 112 MB per million documents with 14 bands.
"""

from collections.abc import Iterator
from itertools import batched
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rensa import RMinHash

from zgcm.config.corpus import NearDuplicates
from zgcm.corpus.shingles import shingles
from zgcm.errors import ZgcmError
from zgcm.io import atomic_open
from zgcm.records import read_records, training_text

SEED = 42
BATCH = 1024
"""Texts sketched in one call, at most."""
BATCH_SHINGLES = 1 << 20
"""No further text is added to a batch that holds so many: long texts must not fill the memory."""
BATCHES_A_GROUP = 64
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def parse_scheme(scheme: str) -> NearDuplicates:
    """The section that a scheme (14x8x5) names. Raises ZgcmError for anything else."""
    try:
        bands, rows, ngram = map(int, scheme.split("x"))
        return NearDuplicates(bands=bands, rows=rows, ngram=ngram)
    except ValueError as error:
        raise ZgcmError(
            "Not a scheme of MinHash bands", where="--scheme", found=scheme,
            expected="bands x rows x words, for instance 14x8x5",
        ) from error  # fmt: skip


def band_names(bands: int) -> list[str]:
    return [f"band_{band:02d}" for band in range(bands)]


def band_hashes(sets: list[np.ndarray], scheme: NearDuplicates) -> np.ndarray:
    """uint64 (len(sets), bands) of non-empty shingle sets (each uint64)."""
    ends = np.cumsum([0, *map(len, sets)])
    matrix = RMinHash.digest_matrix_from_flat_token_hashes(
        np.concatenate(sets), ends, scheme.bands * scheme.rows, SEED
    )
    minima = np.array(matrix.to_rows(), np.uint64).reshape(len(sets), scheme.bands, scheme.rows)
    hashes = np.zeros((len(sets), scheme.bands), np.uint64)
    for row in range(scheme.rows):
        hashes = (hashes ^ minima[:, :, row]) * _FACTOR
        hashes ^= hashes >> np.uint64(32)
    return hashes


def write_minhash(cleaned: Path, target: Path, scheme: NearDuplicates) -> int:
    """Write the bands of a cleaned shard and return how many rows. Streams; same records, same bytes."""
    names = band_names(scheme.bands)
    schema = pa.schema([(name, pa.uint64()) for name in names])
    count = 0
    with (
        atomic_open(target) as stream,
        # Hashes do not compress; a dictionary of them would cost as much again.
        pq.ParquetWriter(stream, schema, compression="none", use_dictionary=False) as out,
    ):
        for group in batched(_bands(cleaned, scheme), BATCHES_A_GROUP):
            hashes = np.concatenate([part for part, _ in group])
            known = np.concatenate([part for _, part in group])
            columns = [_column(hashes[:, band], known) for band in range(scheme.bands)]
            out.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
            count += len(known)
    return count


def _bands(cleaned: Path, scheme: NearDuplicates) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Hashes (N, bands) and a mask of the rows that have any, batch by batch."""
    sets: list[np.ndarray] = []
    held = 0
    for record in read_records(cleaned):
        sets.append(shingles(training_text(record["data"], record["text_fields"]), scheme.ngram))
        held += len(sets[-1])
        if len(sets) == BATCH or held >= BATCH_SHINGLES:
            yield _sketched(sets, scheme)
            sets, held = [], 0
    if sets:
        yield _sketched(sets, scheme)


def _sketched(sets: list[np.ndarray], scheme: NearDuplicates) -> tuple[np.ndarray, np.ndarray]:
    known = np.array([len(grams) > 0 for grams in sets])
    hashes = np.zeros((len(sets), scheme.bands), np.uint64)
    if known.any():
        hashes[known] = band_hashes([grams for grams in sets if len(grams)], scheme)
    return hashes, known


def _column(values: np.ndarray, known: np.ndarray) -> pa.Array:
    """Straight from buffers: `pa.array` of numpy would import pandas, half a second a shard."""
    mask = None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.Array.from_buffers(pa.uint64(), len(values), [mask, pa.py_buffer(np.ascontiguousarray(values))])
