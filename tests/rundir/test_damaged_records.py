"""A damaged record reads as a damaged record, whatever stands in it and whoever reads it."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import zgcm
from zgcm.errors import ZgcmError
from zgcm.io import read_json
from zgcm.rl import recover
from zgcm.rundir import runs
from zgcm.rundir.difficulty import MADE_WITH, read_made_with
from zgcm.train import losslog

DEEP = [b"[" * 200_000, b'{"a":' * 200_000, b"[" * 900 + b"]" * 900]
DAMAGE = [*DEEP, b"{", b"[]", b"5", b"null", b"\xff", b"\0" * 9]


def in_a_table(path: Path) -> Any:
    schema = pa.schema([("prompt", pa.string())], metadata={MADE_WITH: path.read_bytes()})
    pq.write_table(schema.empty_table(), path)
    return read_made_with(path)


READERS: dict[str, Callable[[Path], Any]] = {
    "record.json": read_json,
    "reward.jsonl": lambda path: list(runs.read_lines(path)),
    "speed.jsonl": runs.last_line,
    "loss.jsonl": lambda path: losslog.read_losses(path.parent),
    "cut.jsonl": lambda path: recover.cut_back(path, 1),
    "rates.parquet": in_a_table,
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: repr(damage[:9]))
def test_every_reader_names_the_damaged_file(tmp_path: Path, name: str, damage: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(damage + b"\n")
    with pytest.raises(ZgcmError, match=re.escape(name)) as caught:
        READERS[name](path)
    assert caught.value.hint and len(caught.value.paragraph()) < 600 + len(str(path))


def test_a_record_without_its_key_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "reward.jsonl").write_text('{"step": 1}\n{"mean": 2}\n')
    with pytest.raises(ZgcmError, match=r"reward\.jsonl:2.*step"):
        recover.cut_back(tmp_path / "reward.jsonl", 5)


def test_nothing_reads_files_of_ours_past_these_readers() -> None:
    """`json.loads` itself dies of 200,000 "[": where it is called, its text is no file of ours."""
    others = {
        *("io.py", "rundir/resolved.py", "train/entry.py", "records/parse.py"),
        *("corpus/profiles/gharchive.py", "corpus/profiles/dolci_tooluse.py", "corpus/scan/redact.py"),
        *("rl/rewards/pool.py", "rl/rewards/worker.py"),
        *(f"rl/sandbox/{name}.py" for name in ("jail", "assets", "attest", "verdict", "request")),
        "rl/sandbox/inside/wire.py",
    }
    package = Path(zgcm.__file__).parent
    callers = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if re.search(r"(?<!or)json\.loads?\(", path.read_text())
    }
    assert callers <= others, callers - others
