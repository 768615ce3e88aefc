"""Part `storage`: how fast the results directory takes and gives a checkpoint, against what the recipe needs.

A file of incompressible blocks is written, made durable (fsync) and read back. O_DIRECT goes past the page
cache; where the file system refuses it, the cache is asked to drop the file first and the answer says so,
since a kernel may keep what it likes. One process writes one file: many nodes together can be faster (each
has its own link) or slower (they share the servers) than this.
"""

import contextlib
import errno
import mmap
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from zgcm.config.recipe import Recipe
from zgcm.errors import ZgcmError
from zgcm.flops import checkpoint_bytes, flops_per_token
from zgcm.layout import Layout
from zgcm.plan import PUBLISHED_TFLOPS
from zgcm.preflight.answer import Answer, Task, failed, not_applicable, ran
from zgcm.train.lengths import schedule

MIB = 1 << 20
BLOCK = 16 * MIB
BLOCKS = 4  # different ones, so that no layer below finds them equal
SMALLEST, LARGEST = 64 * MIB, 4096 * MIB
STANDSTILL = 0.1
"""Training may stand still for this part of the time between two saves; with async_save it must only be over
before the next one."""


@dataclass(frozen=True)
class Need:
    """What the most demanding stage asks of the storage."""

    stage: str
    checkpoint_bytes: int
    nodes: int
    interval_seconds: float | None
    """Between two saves, at the plan's assumed rate of GPUs; None without GPUs."""
    async_save: bool

    def bytes_per_second(self) -> float | None:
        """What each node must write: its part of a checkpoint in the allowed part of the interval."""
        if self.interval_seconds is None:
            return None
        allowed = 1.0 if self.async_save else STANDSTILL
        return self.checkpoint_bytes / self.nodes / (self.interval_seconds * allowed)


def check(task: Task) -> Answer:
    if not task.recipe.train_stages():
        return not_applicable("the recipe has no stage that megatron-core trains")
    need = most_demanding(task.recipe, task.layout)
    free = shutil.disk_usage(task.work).free
    size = test_size(need.checkpoint_bytes // need.nodes)
    if free < max(size, need.checkpoint_bytes):
        wants = f"one checkpoint of {need.stage} takes {gb(need.checkpoint_bytes)}"
        return failed(f"{gb(free)} free, {wants}", free_bytes=free)
    measured = measure(task.work / "storage.bin", size)
    figures = {**measured, "free_bytes": free, "need": asdict(need)}
    wanted = need.bytes_per_second()
    figures["needed_write_bytes_per_second"] = wanted
    line = (
        f"writes {gb(measured['write_bytes_per_second'])}/s, reads {gb(measured['read_bytes_per_second'])}/s "
        f"({measured['method']}); a checkpoint of {need.stage} has {gb(need.checkpoint_bytes)}"
    )
    if wanted is None:
        return ran(line, **figures)
    line += f", each of {need.nodes} nodes must write {gb(wanted)}/s"
    if measured["write_bytes_per_second"] < wanted:
        return failed(f"too slow: {line}", **figures)
    return ran(line, **figures)


def most_demanding(recipe: Recipe, layout: Layout) -> Need:
    """The stage whose nodes must write fastest; without GPUs the one with the largest checkpoint."""
    needs = [stage_need(recipe, layout, name) for name in recipe.train_stages()]
    return max(needs, key=lambda need: (need.bytes_per_second() or 0.0, need.checkpoint_bytes))


def stage_need(recipe: Recipe, layout: Layout, name: str) -> Need:
    stage = recipe.train_stages()[name]
    vocabulary = recipe.tokenizer.vocab_size
    gpus, length = stage.resources.gpus, schedule(recipe, layout, name)
    seconds = None
    if gpus and length is not None:
        tokens = length.save_interval * stage.global_batch_size * stage.seq_length
        flops = flops_per_token(recipe.model, vocabulary, stage.seq_length).windowed
        seconds = tokens * flops / (gpus * PUBLISHED_TFLOPS * 1e12)
    size = checkpoint_bytes(recipe.model, vocabulary, stage.optimizer)
    return Need(name, size, stage.resources.nodes, seconds, stage.checkpoints.async_save)


def test_size(wanted: int) -> int:
    """Bytes to write: a node's part of a checkpoint, in whole blocks, within bounds."""
    return min(max(wanted, SMALLEST), LARGEST) // BLOCK * BLOCK


def measure(path: Path, size: int) -> dict[str, Any]:
    """Write `size` bytes, read them back, remove the file. Raises ZgcmError when other bytes come back."""
    with contextlib.ExitStack() as stack:
        blocks = [stack.enter_context(mmap.mmap(-1, BLOCK)) for _ in range(BLOCKS)]
        for block in blocks:
            block[:] = os.urandom(BLOCK)
        try:
            write_seconds, write_direct = write(path, size, blocks)
            read_seconds, read_direct = read(path, size, blocks)
        finally:
            path.unlink(missing_ok=True)
    direct = write_direct and read_direct
    method = "past the page cache" if direct else "through the page cache, which was asked to drop the file"
    return {
        "bytes": size,
        "write_bytes_per_second": size / write_seconds,
        "read_bytes_per_second": size / read_seconds,
        "direct_write": write_direct,
        "direct_read": read_direct,
        "method": method,
    }


def write(path: Path, size: int, blocks: list[mmap.mmap]) -> tuple[float, bool]:
    """(seconds until the bytes are durable, whether the page cache was bypassed)."""
    with opened(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as (file, direct):
        began = time.perf_counter()
        for index in range(size // BLOCK):
            if os.write(file, blocks[index % BLOCKS]) != BLOCK:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        os.fsync(file)
        return time.perf_counter() - began, direct


def read(path: Path, size: int, blocks: list[mmap.mmap]) -> tuple[float, bool]:
    """(seconds, whether the page cache was bypassed). Raises ZgcmError when other bytes come back."""
    seconds = 0.0
    with opened(path, os.O_RDONLY) as (file, direct), mmap.mmap(-1, BLOCK) as buffer:
        if not direct:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        for index in range(size // BLOCK):
            began = time.perf_counter()
            count = os.readv(file, [buffer])
            seconds += time.perf_counter() - began
            if count != BLOCK or buffer[:] != blocks[index % BLOCKS][:]:
                raise ZgcmError("The storage gave back other bytes than were written", where=str(path))
    return seconds, direct


@contextlib.contextmanager
def opened(path: Path, flags: int) -> Iterator[tuple[int, bool]]:
    """(file, whether it bypasses the page cache). Some file systems refuse O_DIRECT."""
    try:
        file, direct = os.open(path, flags | os.O_DIRECT, 0o600), True
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        file, direct = os.open(path, flags, 0o600), False
    try:
        yield file, direct
    finally:
        os.close(file)


def gb(count: float) -> str:
    return f"{count / 1e9:.3g} GB"
