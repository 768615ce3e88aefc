"""`zgcm inspect`: every index of Megatron's form is read, every inconsistency is a sentence."""

import struct

import numpy as np
import pytest

from zgcm.tokens.indexed import write_indexed
from zgcm.tokens.inspect import inspect_index, summary_lines


@pytest.fixture
def prefix(tmp_path):
    """Three documents, one of them empty."""
    with write_indexed(tmp_path / "x", np.dtype(np.uint16)) as (writer, _):
        writer.append(np.arange(10, 17), np.array([4, 0, 3]))
    return tmp_path / "x"


def foreign(tmp_path, lengths, documents, *, dtype=np.int32, code=4, modes=None, tokens=None):
    """An index as another program writes it: sequences and documents are not the same."""
    lengths = np.array(lengths, "<i4")
    offsets = (np.cumsum(lengths) - lengths).astype("<i8") * np.dtype(dtype).itemsize
    header = struct.pack("<9sQBQQ", b"MMIDIDX\x00\x00", 1, code, len(lengths), len(documents))
    parts = [header, lengths.tobytes(), offsets.tobytes(), np.array(documents, "<i8").tobytes()]
    if modes is not None:
        parts.append(np.array(modes, np.int8).tobytes())
    (tmp_path / "f.idx").write_bytes(b"".join(parts))
    values = np.arange(int(lengths.sum())) if tokens is None else np.array(tokens)
    (tmp_path / "f.bin").write_bytes(values.astype(dtype).tobytes())
    return tmp_path / "f"


def test_ours(prefix):
    report = inspect_index(prefix)
    assert report["problems"] == []
    found = [report[name] for name in ("documents", "sequences", "tokens", "dtype")]
    assert found == [3, 3, 7, "uint16"]
    assert (report["smallest_id"], report["largest_id"], report["empty_sequences"]) == (10, 16, 1)
    assert [item["ids"] for item in report["first"]] == [[10, 11, 12, 13], [], [14, 15, 16]]
    assert list(summary_lines(report))[-1] == "  consistent"
    assert inspect_index(prefix.with_suffix(".bin"), show=0, quick=True).get("largest_id") is None


def test_several_sequences_a_document_and_modes(tmp_path):
    report = inspect_index(foreign(tmp_path, [2, 3, 1], [0, 2, 3], modes=[0, 1, 0]))
    assert report["problems"] == []
    assert (report["documents"], report["sequences"], report["modes"]) == (2, 3, True)
    assert [item["ids"] for item in report["first"]] == [[0, 1, 2, 3, 4], [5]]


def test_a_tokenizer_decodes_and_limits(tmp_path, tokenizer_directory):
    good = inspect_index(foreign(tmp_path, [2], [0, 1], tokens=[64, 393]), tokenizer_directory)
    assert good["problems"] == []
    assert good["first"][0]["text"].endswith("<|endoftext|>")
    assert good["documents_with_end_token"] == 1.0
    bad = inspect_index(foreign(tmp_path, [2], [0, 1], tokens=[64, 400]), tokenizer_directory)
    assert bad["problems"] == ["id 400 is beyond the tokenizer's 400"]
    numbers = inspect_index(foreign(tmp_path, [2], [0, 1], dtype=np.float32, code=7), tokenizer_directory)
    assert numbers["first"][0]["ids"] == [0.0, 1.0]
    assert numbers["problems"] == ["its data type is float32, not one of token ids"]
    below = inspect_index(foreign(tmp_path, [2], [0, 1], tokens=[64, -1]), tokenizer_directory)
    assert below["problems"] == ["its smallest id is -1"]
    targets = inspect_index(foreign(tmp_path, [2], [0, 1], tokens=[64, -100]), tokenizer_directory)
    assert targets["problems"] == []


@pytest.mark.parametrize(
    ("ending", "change", "message"),
    [
        (".bin", lambda data: data[:-2], "the .bin has 12 bytes, the .idx describes 14"),
        (".idx", lambda data: data[:20], "less than its header"),
        (".idx", lambda data: data[:-3], "its header says"),
        (".idx", lambda data: b"X" + data[1:], "begins with magic"),
        (".idx", lambda data: data[:17] + b"\x63" + data[18:], "dtype code 99"),
        (".idx", lambda data: data[:34] + b"\xff\xff\xff\xff" + data[38:], "0 has a negative length"),
        (".idx", lambda data: data[:54] + b"\x01" + data[55:], "sequence 1 lies at byte 1"),
        (".idx", lambda data: data[:-8] + b"\x07" + data[-7:], "documents do not run"),
    ],
)
def test_damage_is_named(prefix, ending, change, message):
    path = prefix.with_suffix(ending)
    path.write_bytes(change(path.read_bytes()))
    (problem, *_) = inspect_index(prefix)["problems"]
    assert message in problem


def test_a_missing_bin_is_a_problem(prefix):
    prefix.with_suffix(".bin").unlink()
    assert inspect_index(prefix)["problems"] == ["there is no .bin"]
