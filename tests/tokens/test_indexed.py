"""Our .bin/.idx against megatron-core's own builder and reader, byte for byte."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zgcm.errors import ZgcmError
from zgcm.io import sha256_file
from zgcm.tokens import indexed
from zgcm.tokens.indexed import data_path, index_path, open_indexed, read_lengths, token_dtype, write_indexed

documents = st.lists(st.lists(st.integers(0, 65_000), max_size=30), max_size=25)


@pytest.fixture(scope="module")
def megatron():
    from megatron.core.datasets import indexed_dataset

    return indexed_dataset


def write(prefix: Path, items: list[list[int]], dtype: type, batches: int = 1) -> indexed.Written:
    with write_indexed(prefix, np.dtype(dtype)) as (writer, written):
        for part in np.array_split(np.arange(len(items)), batches):
            chosen = [items[i] for i in part]
            flat = np.array([token for item in chosen for token in item], np.uint32)
            writer.append(flat, np.array([len(item) for item in chosen], np.int64))
    return written


@settings(max_examples=40)
@given(items=documents, wide=st.booleans(), batches=st.integers(1, 4), block=st.integers(1, 7))
def test_bytes_equal_megatrons_builder(megatron, items, wide, batches, block):
    dtype = np.int32 if wide else np.uint16
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexed, "BLOCK", block)
        ours, theirs = Path(name) / "ours", Path(name) / "theirs"
        write(ours, items, dtype, batches)
        builder = megatron.IndexedDatasetBuilder(str(data_path(theirs)), dtype=dtype)
        for item in items:
            builder.add_document(np.array(item, dtype), [len(item)])
        builder.finalize(str(index_path(theirs)))
        assert data_path(ours).read_bytes() == data_path(theirs).read_bytes()
        assert index_path(ours).read_bytes() == index_path(theirs).read_bytes()


@settings(max_examples=25)
@given(items=documents.filter(any))
def test_megatron_and_we_read_the_same(megatron, items):
    with TemporaryDirectory() as name:
        prefix = Path(name) / "data"
        written = write(prefix, items, np.int32)
        theirs, ours = megatron.IndexedDataset(str(prefix)), open_indexed(prefix)
        assert len(theirs) == len(ours) == written.documents == len(items)
        assert written.tokens == sum(map(len, items))
        for row, item in enumerate(items):
            assert theirs[row].tolist() == ours.document(row).tolist() == item


def test_dtype_rule_is_megatrons(megatron):
    for size in (1, 400, 65_499, 65_500, 65_535, 65_536, 154_880):
        assert token_dtype(size) == megatron.DType.optimal_dtype(size)


def test_digests_are_those_of_the_files(tmp_path):
    written = write(tmp_path / "d", [[1, 2], [], [3]], np.uint16, batches=2)
    assert written.bin_sha256 == sha256_file(tmp_path / "d.bin")
    assert written.idx_sha256 == sha256_file(tmp_path / "d.idx")
    assert read_lengths(tmp_path / "d").tolist() == [2, 0, 1]


def test_no_documents_at_all(tmp_path):
    write(tmp_path / "d", [], np.uint16)
    assert len(open_indexed(tmp_path / "d")) == 0


def test_an_id_that_does_not_fit_leaves_nothing_behind(tmp_path):
    with pytest.raises(ZgcmError, match=r"id 65536.*at most 65535 for uint16"):
        write(tmp_path / "d", [[65_536]], np.uint16)
    assert list(tmp_path.iterdir()) == []


def test_failure_keeps_no_old_index_beside_new_data(tmp_path):
    write(tmp_path / "d", [[1]], np.uint16)
    with pytest.raises(RuntimeError), write_indexed(tmp_path / "d", np.dtype(np.uint16)) as (writer, _):
        writer.append(np.array([1, 2]), np.array([2]))
        raise RuntimeError("killed")
    assert not (tmp_path / "d.idx").exists()


def change(path: Path, at: int, byte: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] = byte
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda p: p.with_suffix(".bin").write_bytes(b"\0\0"), "do not match.*2 bytes.*6 bytes"),
        (lambda p: p.with_suffix(".bin").unlink(), "do not match.*no such file"),
        (lambda p: p.with_suffix(".idx").unlink(), "missing"),
        (lambda p: p.with_suffix(".idx").write_bytes(b""), "Not a Megatron token index.*0 bytes"),
        (lambda p: p.with_suffix(".idx").write_bytes(b"MMIDIDX"), "Not a Megatron token index.*7 bytes"),
        (lambda p: p.with_suffix(".idx").write_bytes(b"x" * 80), "magic"),
        (
            lambda p: p.with_suffix(".idx").write_bytes(p.with_suffix(".idx").read_bytes()[:-8]),
            "instead of",
        ),
        (lambda p: change(p.with_suffix(".idx"), 42, 1), "document 0 does not lie where"),
        (lambda p: change(p.with_suffix(".idx"), 37, 0x80), "document 0 does not lie where"),
    ],
)
def test_damage_is_named(tmp_path, damage, message):
    write(tmp_path / "d", [[1, 2], [3]], np.uint16)
    damage(tmp_path / "d")
    with pytest.raises(ZgcmError, match=message):
        open_indexed(tmp_path / "d")
