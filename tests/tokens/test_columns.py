"""Parquet files of ours that are missing or damaged name the command that makes them."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zgcm.corpus.dedup import _parquet
from zgcm.errors import ZgcmError
from zgcm.tokens.columns import read_columns

ROW = pa.schema([("row", pa.int32())])


@pytest.mark.parametrize("content", [None, b"", b"PAR1 and nothing of a footer"])
def test_a_missing_or_damaged_file_names_its_maker(tmp_path, content):
    path = tmp_path / "duplicates.parquet"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ZgcmError, match=r"duplicates\.parquet.*zgcm dedup MIX"):
        read_columns(path, ROW, made_by="zgcm dedup MIX")
    with pytest.raises(ZgcmError, match=r"duplicates\.parquet.*zgcm mix MIX"):
        _parquet([path], "zgcm mix MIX", ROW)


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ({"rows": [1]}, "no column row"),
        ({"row": [1.5]}, "row: double"),
        ({"row": ["1"]}, "row: string"),
        ({"row": pa.array([1], pa.int64())}, "row: int64"),
        ({"row": pa.array([1, None], pa.int32())}, "row: 1 nulls"),
    ],
)
def test_columns_of_another_kind_are_refused(tmp_path, columns, found):
    """Numbers are taken from the buffers as they lie: those of another type, and nulls, were any rows."""
    path = tmp_path / "duplicates.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(ZgcmError, match=rf"duplicates\.parquet. found: {found}.*zgcm dedup MIX"):
        read_columns(path, ROW, made_by="zgcm dedup MIX")
