"""Files are whole or absent."""

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zgcm import io
from zgcm.errors import ZgcmError

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def test_a_failing_writer_leaves_the_old_file_and_no_debris(tmp_path):
    target = tmp_path / "deep" / "file.txt"
    io.write_text(target, "old")
    with pytest.raises(RuntimeError, match="midway"), io.atomic_open(target) as stream:
        stream.write(b"half of the new")
        raise RuntimeError("midway")
    assert target.read_text() == "old"
    assert [path.name for path in target.parent.iterdir()] == ["file.txt"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_one_clear_paragraph(tmp_path, code):
    target = tmp_path / "file.bin"
    with pytest.raises(ZgcmError, match="disk is full") as caught, io.atomic_open(target) as stream:
        stream.write(b"some")
        raise OSError(code, "no space left")
    assert str(target) in caught.value.paragraph()
    assert list(tmp_path.iterdir()) == []


@given(json_values)
def test_canonical_json_does_not_depend_on_key_order(value):
    def reversed_keys(item):
        if isinstance(item, dict):
            return {key: reversed_keys(item[key]) for key in reversed(list(item))}
        return [reversed_keys(part) for part in item] if isinstance(item, list) else item

    assert io.canonical_json(value) == io.canonical_json(reversed_keys(value))


def test_reading_json_names_the_file(tmp_path):
    with pytest.raises(ZgcmError, match="missing"):
        io.read_json(tmp_path / "absent.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(ZgcmError, match=r"bad\.json"):
        io.read_json(tmp_path / "bad.json")
