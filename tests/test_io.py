"""Files are whole or absent."""

import errno
import os
import signal
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zgcm import cli, io, stopping
from zgcm.errors import ZgcmError

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
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


def test_a_killed_writer_leaves_no_debris_for_good(tmp_path):
    target = tmp_path / "[a] file.bin"
    killed = f"""
import os, signal
from pathlib import Path
from zgcm.io import atomic_open
with atomic_open(Path({str(target)!r})) as stream:
    stream.write(b"half")
    stream.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", killed]).returncode == -signal.SIGKILL
    assert [io.is_temporary(path) for path in tmp_path.iterdir()] == [True]
    io.write_text(target, "whole")
    assert list(tmp_path.iterdir()) == [target]


def test_the_temporary_file_of_a_living_writer_stays(tmp_path):
    target = tmp_path / "file.bin"
    with io.atomic_open(target) as stream:
        stream.write(b"whole")
        io.remove_abandoned(target)
    assert target.read_bytes() == b"whole"


REFUSALS = (
    *(errno.EROFS, errno.EACCES, errno.ENOTDIR, errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.ESTALE),
    *(errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM),
)


@pytest.mark.parametrize("code", REFUSALS)
def test_a_refused_file_is_one_paragraph(monkeypatch, capsys, code):
    def refuse():
        raise OSError(code, "refused by the system", "results/tokens")

    monkeypatch.setattr(cli, "app", refuse)
    with pytest.raises(SystemExit, match="1"):
        cli.main()
    told = capsys.readouterr().err
    assert told.startswith("zgcm: ") and "results/tokens" in told and "refused by the system" in told
    assert told.count("\n") == 1


def test_too_little_memory_is_one_paragraph(monkeypatch, capsys):
    def refuse():
        raise MemoryError("Unable to allocate 3 TiB")

    monkeypatch.setattr(cli, "app", refuse)
    with pytest.raises(SystemExit, match="1"):
        cli.main()
    told = capsys.readouterr().err
    assert told.startswith("zgcm: The system refuses more memory. found: Unable to allocate 3 TiB")


def test_what_a_library_makes_of_a_request_to_stop_is_that_request(monkeypatch, capsys):
    """duckdb turns Ctrl-C during a query into a RuntimeError."""

    def query():
        try:
            os.kill(os.getpid(), signal.SIGINT)
            signal.pause()
        except BaseException as error:
            raise RuntimeError("Query interrupted") from error

    monkeypatch.setattr(cli, "app", query)
    with stopping.answering(lambda number, frame: None), pytest.raises(SystemExit, match="130"):
        cli.main()
    stopping.received.clear()
    assert "Stopped at your request" in capsys.readouterr().err


def test_other_system_errors_keep_their_traceback(monkeypatch):
    def refuse():
        raise OSError(errno.EINVAL, "a bug of ours")

    monkeypatch.setattr(cli, "app", refuse)
    with pytest.raises(OSError, match="a bug of ours"):
        cli.main()


@given(json_values)
def test_canonical_json_does_not_depend_on_key_order(value):
    def reversed_keys(item):
        if isinstance(item, dict):
            return {key: reversed_keys(item[key]) for key in reversed(list(item))}
        return [reversed_keys(part) for part in item] if isinstance(item, list) else item

    assert io.canonical_json(value) == io.canonical_json(reversed_keys(value))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_json_does_not_have_is_never_written(value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        io.canonical_json({"loss": value})


def test_reading_json_names_the_file(tmp_path):
    with pytest.raises(ZgcmError, match="missing"):
        io.read_json(tmp_path / "absent.json")
    for content in ("{", "[" * 100_000):
        (tmp_path / "bad.json").write_text(content)
        with pytest.raises(ZgcmError, match=r"Not valid JSON.*bad\.json"):
            io.read_json(tmp_path / "bad.json")
