"""Rows of a parquet file as records, streaming; a part of a file is a range of its rows. And back."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from zgcm.errors import ZgcmError
from zgcm.io import atomic_open
from zgcm.records.badlines import BadLine
from zgcm.records.lines import Part
from zgcm.records.parse import MAX_DEPTH, Record, Refused

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

ROWS_AT_A_TIME = 1024


def read_rows(path: Path, part: Part, on_bad: Callable[[BadLine], None]) -> Iterator[tuple[int, Record]]:
    """Each row of a part with its number in the file, from 1. Rows that are no record (text that is not
    UTF-8, dates out of range) go to `on_bad`. Raises ZgcmError for a damaged file and for two columns of one
    name."""
    import pyarrow
    import pyarrow.parquet

    if not path.exists():
        raise ZgcmError("A file of records is missing", where=str(path), hint="check the path")
    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as table:
            _refuse_repeated_columns(path, table.schema_arrow.names)
            for number, row in _numbered_rows(table, part):
                try:
                    record = _plain_json(row)
                except Refused as refused:
                    on_bad(BadLine(path, number, None, 0, b"", refused))
                    continue
                yield number, record
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise ZgcmError(
            "Not a readable parquet file", where=f"{path}:{number + 1}", found=str(error).splitlines()[0],
            hint="copy or download it again",
        )  from error  # fmt: skip


def write_rows(path: Path, records: Iterable[Record]) -> int:
    """Write all records atomically as one parquet file and return how many; holds them all in memory.

    A column for each key of any record; a record without it has null there.
    """
    import pyarrow
    import pyarrow.parquet

    rows = list(records)
    keys = sorted({key for row in rows for key in row})
    table = pyarrow.Table.from_pylist([{key: row.get(key) for key in keys} for row in rows])
    with atomic_open(path) as stream:
        pyarrow.parquet.write_table(table, stream, compression="zstd")
    return len(rows)


def _numbered_rows(table: "pyarrow.parquet.ParquetFile", part: Part) -> Iterator[tuple[int, "_Row"]]:
    """Rows of the part, from the row groups that hold them."""
    total = table.metadata.num_rows
    start, end = total * part.index // part.of, total * (part.index + 1) // part.of
    first = 0
    for group in range(table.num_row_groups):
        rows = table.metadata.row_group(group).num_rows
        if first < end and first + rows > start:
            number = first
            for batch in table.iter_batches(ROWS_AT_A_TIME, row_groups=[group]):
                for offset, row in enumerate(_rows(batch), number + 1):
                    if start < offset <= end:
                        yield offset, row
                number += len(batch)
        first += rows


_Row = dict[str, Any] | ValueError | ArithmeticError


def _rows(batch: "pyarrow.RecordBatch") -> list[_Row]:
    """A batch as Python values; where one has none (text that is not UTF-8, a date beyond the year 9999), row
    by row, so that the others survive."""
    try:
        return batch.to_pylist()
    except (ValueError, ArithmeticError):
        return [_row(batch, index) for index in range(len(batch))]


def _row(batch: "pyarrow.RecordBatch", index: int) -> _Row:
    try:
        return batch.slice(index, 1).to_pylist()[0]
    except (ValueError, ArithmeticError) as error:
        return error


def _plain_json(row: _Row) -> Record:
    """Times, decimals and bytes as strings, NaN as null: the same record as if it had been read from JSON, so
    its digest can be checked after it was written. Bytes that are UTF-8 are the text: older writers mark no
    column as text."""
    if isinstance(row, UnicodeDecodeError):
        raise Refused("not_utf8", "Not valid UTF-8", found=str(row), hint="write the column as UTF-8 text")
    if isinstance(row, Exception):
        raise Refused("not_readable", "A value cannot be read", found=str(row), hint="convert the column")
    try:
        return orjson.loads(orjson.dumps(row, default=_text))
    except (TypeError, orjson.JSONDecodeError) as error:  # surrogates, 255 levels
        raise Refused(
            "not_json", "A row cannot be written as JSON", found=str(error),
            expected=f"Unicode text, at most {MAX_DEPTH} levels", hint="convert the column",
        ) from error  # fmt: skip


def _text(value: Any) -> str:
    try:
        return value.decode() if isinstance(value, bytes) else str(value)
    except UnicodeDecodeError:
        return str(value)


def _refuse_repeated_columns(path: Path, names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ZgcmError("A parquet file has two columns of one name", where=str(path), found=", ".join(twice),
                        hint="rename one of them")  # fmt: skip
