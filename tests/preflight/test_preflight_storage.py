"""Storage: the file really goes to the disk and back, and the need follows the recipe."""

import mmap
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.preflight.conftest import recipe
from zgcm.config.recipe import Recipe
from zgcm.errors import ZgcmError
from zgcm.flops import checkpoint_bytes, flops_per_token
from zgcm.layout import Layout
from zgcm.preflight import storage
from zgcm.preflight.storage import Need

BLOCK = 1 << 20


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "BLOCK", BLOCK)


def blocks() -> list[mmap.mmap]:
    made = [mmap.mmap(-1, BLOCK) for _ in range(storage.BLOCKS)]
    for block in made:
        block[:] = os.urandom(BLOCK)
    return made


def test_a_file_is_written_read_back_and_removed(tmp_path: Path) -> None:
    found = storage.measure(tmp_path / "file", 2 * BLOCK)
    assert found["bytes"] == 2 * BLOCK
    assert found["write_bytes_per_second"] > 0 and found["read_bytes_per_second"] > 0
    assert list(tmp_path.iterdir()) == []


def test_the_answer_says_when_the_page_cache_was_in_the_way(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    open_file = os.open

    def refuse_direct(path, flags, *mode):  # type: ignore[no-untyped-def]
        if flags & os.O_DIRECT:
            raise OSError(22, "Invalid argument")
        return open_file(path, flags, *mode)

    monkeypatch.setattr(os, "open", refuse_direct)
    found = storage.measure(tmp_path / "file", BLOCK)
    assert not found["direct_write"] and not found["direct_read"]
    assert found["method"].startswith("through the page cache")


def test_other_bytes_than_written_are_an_error(tmp_path: Path) -> None:
    path, written = tmp_path / "file", blocks()
    storage.write(path, 2 * BLOCK, written)
    with path.open("r+b") as stream:
        stream.seek(BLOCK + 17)
        byte = stream.read(1)
        stream.seek(BLOCK + 17)
        stream.write(bytes([byte[0] ^ 1]))
    with pytest.raises(ZgcmError, match="other bytes than were written"):
        storage.read(path, 2 * BLOCK, written)


@pytest.mark.parametrize(("async_save", "expected"), [(False, 10.0), (True, 1.0)])
def test_a_node_writes_its_part_in_the_allowed_time(async_save: bool, expected: float) -> None:
    need = Need("a", checkpoint_bytes=4000, nodes=4, interval_seconds=1000.0, async_save=async_save)
    assert need.bytes_per_second() == pytest.approx(expected)  # 1,000 bytes in 100 s, or in 1,000 s


def test_the_need_of_the_published_recipe(published: Recipe) -> None:
    need = storage.stage_need(published, Layout(Path("nowhere")), "pretrain_1t")
    stage = published.train_stages()["pretrain_1t"]
    vocabulary = published.tokenizer.vocab_size
    assert need.checkpoint_bytes == checkpoint_bytes(published.model, vocabulary, stage.optimizer)
    assert stage.checkpoints.save_interval is not None
    tokens = stage.checkpoints.save_interval * stage.global_batch_size * stage.seq_length
    flops = flops_per_token(published.model, vocabulary, stage.seq_length).windowed
    assert need.interval_seconds == pytest.approx(tokens * flops / (192 * 468e12))


def test_without_gpus_nothing_is_assumed() -> None:
    assert storage.stage_need(recipe(), Layout(Path("nowhere")), "one").interval_seconds is None


def test_slow_storage_fails(task, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    need = Need("a", checkpoint_bytes=10**9, nodes=1, interval_seconds=100.0, async_save=False)
    rates = {"write_bytes_per_second": 0.5e8, "read_bytes_per_second": 1e9, "method": "m"}
    monkeypatch.setattr(storage, "most_demanding", lambda recipe, layout: need)
    monkeypatch.setattr(storage, "measure", lambda path, size: rates)
    given = task()
    answer = storage.check(given)
    assert answer.status == "failed"
    assert "too slow" in answer.reason and "must write 0.1 GB/s" in answer.reason
    rates["write_bytes_per_second"] = 2e8
    assert storage.check(given).status == "ran"


def test_a_full_disk_fails_before_anything_is_written(task, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(storage.shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    monkeypatch.setattr(storage, "measure", None)
    answer = storage.check(task())
    assert answer.status == "failed" and "free, one checkpoint of" in answer.reason
