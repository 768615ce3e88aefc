"""Parquet files of ours that are missing or damaged name the command that makes them."""

import pytest

from zgcm.corpus.dedup import _parquet
from zgcm.errors import ZgcmError
from zgcm.tokens.columns import read_columns


@pytest.mark.parametrize("content", [None, b"", b"PAR1 and nothing of a footer"])
def test_a_missing_or_damaged_file_names_its_maker(tmp_path, content):
    path = tmp_path / "duplicates.parquet"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ZgcmError, match=r"duplicates\.parquet.*zgcm dedup MIX"):
        read_columns(path, ["row"], made_by="zgcm dedup MIX")
    with pytest.raises(ZgcmError, match=r"duplicates\.parquet.*zgcm mix MIX"):
        _parquet([path], "zgcm mix MIX")
